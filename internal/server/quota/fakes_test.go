package quota

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// list returns amounts by name: "pods", "3", ...
func list(pairs ...string) corev1.ResourceList {
	result := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		result[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return result
}

// newQuota returns the quota of the tenant acme in the flattened view.
func newQuota(version string, spec, hard, used corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme|default", Name: v1alpha1.TenantQuota, UID: "u", ResourceVersion: version},
		Spec:       corev1.ResourceQuotaSpec{Hard: spec},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}
}

// fakeStore is etcd with the quota of one tenant.
type fakeStore struct {
	mu     sync.Mutex
	quota  *corev1.ResourceQuota
	writes int
	// failing makes the next writes fail.
	failing int
	// before is called before each write, as another server may write.
	before func(*corev1.ResourceQuota)
}

func (s *fakeStore) Get(_ context.Context, key flatName) (*corev1.ResourceQuota, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quota == nil || nameOf(s.quota) != key {
		return nil, nil
	}
	return s.quota.DeepCopy(), nil
}

func (s *fakeStore) Update(_ context.Context, _ flatName, change func(*corev1.ResourceQuota) error) (*corev1.ResourceQuota, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing > 0 {
		s.failing--
		return nil, errors.New("etcd does not answer")
	}
	if s.before != nil {
		s.before(s.quota)
		s.touch()
	}
	changed := s.quota.DeepCopy()
	if err := change(changed); err != nil {
		return nil, err
	}
	s.quota = changed
	s.writes++
	s.touch()
	return s.quota.DeepCopy(), nil
}

// touch gives the quota its next version.
func (s *fakeStore) touch() {
	version, _ := strconv.Atoi(s.quota.ResourceVersion)
	s.quota.ResourceVersion = strconv.Itoa(version + 1)
}

func (s *fakeStore) used(name corev1.ResourceName) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	amount, ok := s.quota.Status.Used[name]
	if !ok {
		return "unknown"
	}
	return amount.String()
}

// latestOf returns a latest whose informer shows the given quotas, and no change.
func latestOf(t *testing.T, quotas ...*corev1.ResourceQuota) *latest {
	t.Helper()
	client := fake.NewClientset()
	for _, q := range quotas {
		if err := client.Tracker().Add(q); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	l, err := newLatest(factory.Core().V1().ResourceQuotas(), nil)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	// The handler, too: a first event that comes later would forget what a test remembers.
	if !cache.WaitForCacheSync(t.Context().Done(), l.hasSynced) {
		t.Fatal("the quotas were not seen")
	}
	return l
}
