package serviceips

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

func service(namespace, name string, ips ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIPs: ips}}
}

func TestGet(t *testing.T) {
	system, views := informers.NewSharedInformerFactory(fake.NewClientset(), 0), informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	all, err := All(system, views)
	if err != nil {
		t.Fatal(err)
	}
	services := all.Core().V1().Services()
	for _, s := range []*corev1.Service{
		service("shop", "web", "10.0.0.1"), service("a|shop", "web", "10.0.0.2"), service("b|shop", "web", "10.0.0.3"),
		service("a|shop", "db", "10.0.0.4"), service("other", "db", "10.0.0.5"),
	} {
		if err := views.Core().V1().Services().Informer().GetIndexer().Add(s); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.Namespace, "|") {
			if err := services.Informer().GetIndexer().Add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		namespace, name string
		want            []string
	}{
		{"shop", "web", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}},
		{"shop", "db", []string{"10.0.0.4"}},
		{"other", "db", []string{"10.0.0.5"}},
		{"shop", "gone", nil},
	} {
		got, err := services.Lister().Services(tc.namespace).Get(tc.name)
		switch {
		case tc.want == nil && !apierrors.IsNotFound(err):
			t.Errorf("%s/%s: got %v, %v, want not found", tc.namespace, tc.name, got, err)
		case tc.want == nil:
		case err != nil:
			t.Errorf("%s/%s: %v", tc.namespace, tc.name, err)
		default:
			if diff := cmp.Diff(tc.want, slices.Sorted(slices.Values(got.Spec.ClusterIPs))); diff != "" {
				t.Errorf("%s/%s: addresses (-want +got):\n%s", tc.namespace, tc.name, diff)
			}
			if plain := got.Namespace; plain != "shop" && plain != "other" {
				t.Errorf("%s/%s is in namespace %q", tc.namespace, tc.name, plain)
			}
		}
	}
	if stored, _, _ := services.Informer().GetIndexer().GetByKey("shop/web"); len(stored.(*corev1.Service).Spec.ClusterIPs) != 1 {
		t.Error("the cached object has changed")
	}
}

// TestSynced checks that the Services of spaces are read before the loop begins: it deletes the address of each Service
// that it does not find.
func TestSynced(t *testing.T) {
	system, views := informers.NewSharedInformerFactory(fake.NewClientset(), 0), informers.NewSharedInformerFactory(fake.NewClientset(service("a|shop", "web", "10.0.0.2")), 0)
	all, err := All(system, views)
	if err != nil {
		t.Fatal(err)
	}
	services := all.Core().V1().Services()
	synced := services.Informer().HasSynced
	system.Start(t.Context().Done())
	system.WaitForCacheSync(t.Context().Done())
	if synced() {
		t.Error("it has synced without the Services of spaces")
	}
	views.Start(t.Context().Done())
	views.WaitForCacheSync(t.Context().Done())
	if !synced() {
		t.Error("it has not synced")
	}
	if _, err := services.Lister().Services("shop").Get("web"); err != nil {
		t.Error(err)
	}
}
