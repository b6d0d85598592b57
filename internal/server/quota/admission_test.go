package quota

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/tenantry/tenantry/internal/tenant"
)

// fakeServer is a quota in a server that, as the real one, refuses updates of
// an outdated object. Its watch never tells anybody.
type fakeServer struct {
	mu        sync.Mutex
	quota     *corev1.ResourceQuota
	conflicts int
}

func newServer(pods string) *fakeServer {
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}
	return &fakeServer{quota: &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a|team", Name: "q", UID: "u", ResourceVersion: "1"},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}}
}

func (s *fakeServer) get(clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return true, s.quota.DeepCopy(), nil
}

func (s *fakeServer) update(action clienttesting.Action) (bool, runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	update := action.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota)
	if update.ResourceVersion != s.quota.ResourceVersion {
		s.conflicts++
		return true, nil, apierrors.NewConflict(quotaResource, update.Name, errors.New("outdated"))
	}
	s.set(update.Status.Used)
	return true, s.quota.DeepCopy(), nil
}

func (s *fakeServer) set(used corev1.ResourceList) {
	version, _ := strconv.Atoi(s.quota.ResourceVersion)
	s.quota = s.quota.DeepCopy()
	s.quota.ResourceVersion = strconv.Itoa(version + 1)
	s.quota.Status.Used = used.DeepCopy()
}

func (s *fakeServer) used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quota.Status.Used.Pods().Value()
}

func newPlugin(t *testing.T, s *fakeServer) *Plugin {
	t.Helper()
	client := fake.NewClientset(s.quota)
	client.PrependReactor("get", "resourcequotas", s.get)
	client.PrependReactor("update", "resourcequotas", s.update)
	f := informers.NewSharedInformerFactory(client, 0)
	configuration, err := quotainstall.NewQuotaConfigurationForAdmission(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := NewPlugin(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	plugin.SetExternalKubeClientSet(client)
	plugin.SetExternalKubeInformerFactory(f)
	plugin.SetQuotaConfiguration(configuration)
	plugin.SetDrainedNotification(t.Context().Done())
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	f.Start(t.Context().Done())
	f.WaitForCacheSync(t.Context().Done())
	return plugin
}

func create(p *Plugin, name string) error {
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a|team", Name: name}}
	return p.Validate(tenant.WithSpace(context.Background(), "a"), admission.NewAttributesRecord(pod, nil, core.Kind("Pod").WithVersion("v1"),
		"a|team", name, core.Resource("pods").WithVersion("v1"), "", admission.Create, nil, false, nil), nil)
}

// TestBehindInformers charges a quota again and again while the informers show
// its first state.
func TestBehindInformers(t *testing.T) {
	s := newServer("1000")
	p := newPlugin(t, s)
	for i := range 300 {
		if err := create(p, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.used(); got != 300 || s.conflicts != 0 {
		t.Errorf("used %d with %d conflicts, want 300 with none", got, s.conflicts)
	}
}

// TestChangedByAnother charges a quota that another server charges too.
func TestChangedByAnother(t *testing.T) {
	s := newServer("10")
	p := newPlugin(t, s)
	for i := range 3 {
		s.mu.Lock()
		used := s.quota.Status.Used.Pods().Value()
		s.set(corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(used+1, resource.DecimalSI)})
		s.mu.Unlock()
		if err := create(p, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.used(); got != 6 {
		t.Errorf("used %d, want 6", got)
	}
}

// TestRace lets 50 requests race for 10 pods.
func TestRace(t *testing.T) {
	s := newServer("10")
	p := newPlugin(t, s)
	var admitted, refused int
	var mu sync.Mutex
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			err := create(p, fmt.Sprint(i))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				admitted++
			case apierrors.IsForbidden(err):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if admitted != 10 || refused != 40 || s.used() != 10 {
		t.Errorf("admitted %d, refused %d, used %d; want 10, 40, 10", admitted, refused, s.used())
	}
}
