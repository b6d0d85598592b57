package deps

import (
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/onsi/ginkgo/v2"
	_ "github.com/onsi/gomega"
	_ "github.com/spf13/cobra"
	_ "github.com/tidwall/gjson"
	_ "github.com/tidwall/sjson"
	_ "go.etcd.io/etcd/client/v3"
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "k8s.io/apiextensions-apiserver/pkg/apiserver"
	_ "k8s.io/client-go/applyconfigurations"
	_ "k8s.io/kube-aggregator/pkg/apiserver"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/yaml"
)
