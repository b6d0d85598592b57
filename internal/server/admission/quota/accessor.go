package quota

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/storage"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// accessor reads quotas from the informers and writes what is charged to them.
type accessor struct {
	client    kubernetes.Interface
	informer  coreinformers.ResourceQuotaInformer
	hasSynced cache.InformerSynced

	mu sync.Mutex
	// ahead are the quotas that the informers have not caught up with.
	ahead map[types.NamespacedName]*corev1.ResourceQuota
}

var _ resourcequota.QuotaAccessor = &accessor{}

func newAccessor() *accessor {
	return &accessor{ahead: map[types.NamespacedName]*corev1.ResourceQuota{}}
}

func (a *accessor) start() error {
	handle, err := a.informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) { a.caughtUp(obj) },
		DeleteFunc: a.gone,
	})
	if err != nil {
		return fmt.Errorf("watching quotas: %w", err)
	}
	a.hasSynced = handle.HasSynced
	return nil
}

// caughtUp forgets a quota that the informers have.
func (a *accessor) caughtUp(obj any) {
	seen, ok := obj.(*corev1.ResourceQuota)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ahead, ok := a.ahead[nameOf(seen)]; ok && !newer(ahead, seen) {
		delete(a.ahead, nameOf(seen))
	}
}

// gone forgets a quota that was deleted.
func (a *accessor) gone(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if deleted, ok := obj.(*corev1.ResourceQuota); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.ahead, nameOf(deleted))
	}
}

// GetQuotas returns the newest known quotas of a namespace. The evaluator may
// change what it gets.
func (a *accessor) GetQuotas(namespace string) ([]corev1.ResourceQuota, error) {
	listed, err := a.informer.Lister().ResourceQuotas(namespace).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing quotas: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	quotas := make([]corev1.ResourceQuota, 0, len(listed))
	for _, quota := range listed {
		if ahead, ok := a.ahead[nameOf(quota)]; ok && ahead.UID == quota.UID {
			if newer(ahead, quota) {
				quota = ahead
			} else {
				delete(a.ahead, nameOf(quota))
			}
		}
		quotas = append(quotas, *quota.DeepCopy())
	}
	return quotas, nil
}

// UpdateQuotaStatus writes a charge. It fails with a conflict if the quota has
// changed meanwhile; GetQuotas then returns the quota as it is.
func (a *accessor) UpdateQuotaStatus(charged *corev1.ResourceQuota) error {
	ctx := context.Background()
	quotas := a.client.CoreV1().ResourceQuotas(charged.Namespace)
	updated, err := quotas.UpdateStatus(ctx, charged, metav1.UpdateOptions{})
	switch {
	case err == nil:
		a.remember(updated)
		return nil
	case apierrors.IsConflict(err):
		if current, getErr := quotas.Get(ctx, charged.Name, metav1.GetOptions{}); getErr == nil {
			a.remember(current)
		}
		return err
	default:
		return err
	}
}

// remember keeps a quota until the informers have it.
func (a *accessor) remember(quota *corev1.ResourceQuota) {
	listed, err := a.informer.Lister().ResourceQuotas(quota.Namespace).Get(quota.Name)
	if err != nil || listed.UID != quota.UID || !newer(quota, listed) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.ahead[nameOf(quota)]; !ok || newer(quota, known) {
		a.ahead[nameOf(quota)] = quota
	}
}

func nameOf(quota *corev1.ResourceQuota) types.NamespacedName {
	return types.NamespacedName{Namespace: quota.Namespace, Name: quota.Name}
}

// newer reports whether a is a later state than b.
func newer(a, b *corev1.ResourceQuota) bool {
	return storage.APIObjectVersioner{}.CompareResourceVersion(a, b) > 0
}
