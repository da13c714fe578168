// The mock driver of CSI's own test suite, as Kubernetes' end-to-end tests ran it. `build.py` one folder up builds it.
module mooring.dev/conformance/csi-mock

go 1.26.0

tool github.com/kubernetes-csi/csi-test/v4/cmd/mock-driver

require (
	github.com/container-storage-interface/spec v1.3.0 // indirect
	github.com/golang/mock v1.3.1 // indirect
	github.com/golang/protobuf v1.3.3 // indirect
	github.com/konsorten/go-windows-terminal-sequences v1.0.2 // indirect
	github.com/kubernetes-csi/csi-test/v4 v4.0.2 // indirect
	github.com/robertkrimen/otto v0.0.0-20191219234010-c382bd3c16ff // indirect
	github.com/sirupsen/logrus v1.4.2 // indirect
	golang.org/x/net v0.0.0-20191112182307-2180aed22343 // indirect
	golang.org/x/sys v0.0.0-20191113165036-4c7a9d0fe056 // indirect
	golang.org/x/text v0.3.2 // indirect
	google.golang.org/genproto v0.0.0-20191114150713-6bbd007550de // indirect
	google.golang.org/grpc v1.29.1 // indirect
	gopkg.in/sourcemap.v1 v1.0.5 // indirect
	gopkg.in/yaml.v2 v2.2.5 // indirect
	k8s.io/klog v1.0.0 // indirect
)
