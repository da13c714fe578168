"""All of Mooring's components on a real kube-apiserver and etcd, at size, while leaders are killed."""
