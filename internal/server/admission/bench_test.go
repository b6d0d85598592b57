package admission

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

// BenchmarkChain compares a space with the system space, where nothing is
// flattened.
func BenchmarkChain(b *testing.B) {
	s := newServer(b, serverConfig{objects: spaces(
		// Without any, LimitRanger asks the server.
		&corev1.LimitRange{ObjectMeta: flatMeta("a", "team", "l")},
		&corev1.LimitRange{ObjectMeta: flatMeta(tenant.System, "team", "l")},
	)})
	for name, object := range map[string]func() runtime.Object{
		"pod": func() runtime.Object { return pod("team") },
		"configmap": func() runtime.Object {
			return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c"}}
		},
	} {
		for _, n := range []tenant.Name{tenant.System, "a"} {
			b.Run(name+"/"+n.String(), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := s.create(n, object()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
