package quota

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// latest knows the newest state of quotas: that of the informers or, if they have
// not caught up yet, of what this server has written or read. What it returns is shared.
type latest struct {
	informer  coreinformers.ResourceQuotaInformer
	hasSynced cache.InformerSynced

	mu sync.Mutex
	// ahead are the quotas that the informers have not caught up with.
	ahead map[flatName]*corev1.ResourceQuota
}

// newLatest follows the informer. changed, if not nil, is called with every quota that
// the informer shows.
func newLatest(informer coreinformers.ResourceQuotaInformer, changed func(*corev1.ResourceQuota)) (*latest, error) {
	l := &latest{informer: informer, ahead: map[flatName]*corev1.ResourceQuota{}}
	seen := func(obj any) {
		quota, ok := obj.(*corev1.ResourceQuota)
		if !ok {
			return
		}
		l.caughtUp(quota)
		if changed != nil {
			changed(quota)
		}
	}
	handle, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen,
		UpdateFunc: func(_, obj any) { seen(obj) },
		DeleteFunc: l.gone,
	})
	if err != nil {
		return nil, fmt.Errorf("watching quotas: %w", err)
	}
	l.hasSynced = handle.HasSynced
	return l, nil
}

// caughtUp forgets a quota that the informers have.
func (l *latest) caughtUp(seen *corev1.ResourceQuota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.newest(seen)
}

// gone forgets a quota that was deleted.
func (l *latest) gone(obj any) {
	if deleted, ok := objects.LastKnown[*corev1.ResourceQuota](obj); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ahead, nameOf(deleted))
	}
}

// ofNamespace returns the quotas of a namespace, that of the tenant left out.
func (l *latest) ofNamespace(namespace tenant.Flat) ([]*corev1.ResourceQuota, error) {
	quotas, err := l.informer.Lister().ResourceQuotas(namespace.String()).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing quotas: %w", err)
	}
	quotas = slices.DeleteFunc(quotas, IsTenantQuota)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range quotas {
		quotas[i] = l.newest(q)
	}
	return quotas, nil
}

// get returns a quota, or nil if the informers know none.
func (l *latest) get(name flatName) *corev1.ResourceQuota {
	quota, err := l.informer.Lister().ResourceQuotas(name.namespace.String()).Get(name.name)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest(quota)
}

// newest returns the newer of the informers' state and what was remembered, which it
// forgets if it is not newer.
func (l *latest) newest(listed *corev1.ResourceQuota) *corev1.ResourceQuota {
	ahead, ok := l.ahead[nameOf(listed)]
	if ok && newer(ahead, listed) {
		return ahead
	}
	delete(l.ahead, nameOf(listed))
	return listed
}

// remember keeps a quota until the informers have it, or another one of its name.
func (l *latest) remember(quota *corev1.ResourceQuota) {
	listed, err := l.informer.Lister().ResourceQuotas(quota.Namespace).Get(quota.Name)
	if err != nil || !newer(quota, listed) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.ahead[nameOf(quota)]; !ok || newer(quota, known) {
		l.ahead[nameOf(quota)] = quota
	}
}

// newer reports whether a is a later state than b, or another quota that came after it:
// etcd's revisions only grow.
func newer(a, b *corev1.ResourceQuota) bool {
	return storage.APIObjectVersioner{}.CompareResourceVersion(a, b) > 0
}
