"""What a write meets besides its own rules: the rest of the cluster. One module per concern, one table.

An admission step may complete the object, warn, or raise an ApiError; it may read other objects. Steps carry the
names of kube-apiserver's plugins where they do what those do. Not here: who may write at all (authorization is in
front of the verbs), and whether the values make sense (validation comes after).
"""
