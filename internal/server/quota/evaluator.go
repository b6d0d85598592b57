package quota

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	api "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// workers is how many namespaces an evaluator charges at once. A charge is a write: the
// number bounds the charges per second at about workers / latency of etcd.
const workers = 32

// charge is what upstream's evaluator has decided: a quota as the evaluator was shown it,
// and as it shall be.
type charge struct {
	before, after *corev1.ResourceQuota
}

// added returns what is used more.
func (c charge) added() corev1.ResourceList {
	return quota.RemoveZeros(quota.SubtractWithNonNegativeResult(c.after.Status.Used, c.before.Status.Used))
}

// accessor is where upstream's evaluator reads quotas and writes charges. Upstream says what
// is used after a charge, and not what was used before. So the accessor keeps what it has
// shown of a namespace, until the evaluator has decided.
type accessor struct {
	// read returns the quotas of a namespace. Upstream copies what it changes.
	read func(namespace tenant.Flat) ([]*corev1.ResourceQuota, error)
	// write writes a charge. After a conflict upstream reads again and decides anew.
	write func(charge) error

	mu    sync.Mutex
	shown map[tenant.Flat][]*corev1.ResourceQuota
}

var _ resourcequota.QuotaAccessor = &accessor{}

// newEvaluator returns upstream's evaluator, which decides about all that waits for the
// quotas of one namespace at once.
func newEvaluator(a *accessor, registry quota.Registry, ignored map[schema.GroupResource]struct{}, config *api.Configuration, stop <-chan struct{}) resourcequota.Evaluator {
	a.shown = make(map[tenant.Flat][]*corev1.ResourceQuota)
	return resourcequota.NewQuotaEvaluator(a, ignored, registry, a.lock, config, workers, stop)
}

// GetQuotas implements resourcequota.QuotaAccessor.
func (a *accessor) GetQuotas(namespace string) ([]corev1.ResourceQuota, error) {
	flat := tenant.Flat(namespace)
	shown, err := a.read(flat)
	if err != nil || len(shown) == 0 {
		return nil, err
	}
	quotas := make([]corev1.ResourceQuota, len(shown))
	for i, q := range shown {
		quotas[i] = *q
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown[flat] = shown
	return quotas, nil
}

// lock is called by upstream before it decides about the quotas of a namespace, and what it
// returns afterwards. There is nothing to lock: upstream decides about a namespace once at a
// time.
func (a *accessor) lock(quotas []corev1.ResourceQuota) (unlock func()) {
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		for i := range quotas {
			delete(a.shown, tenant.Flat(quotas[i].Namespace))
		}
	}
}

// UpdateQuotaStatus implements resourcequota.QuotaAccessor.
func (a *accessor) UpdateQuotaStatus(charged *corev1.ResourceQuota) error {
	a.mu.Lock()
	shown := a.shown[tenant.Flat(charged.Namespace)]
	a.mu.Unlock()
	for _, q := range shown {
		if q.Name == charged.Name {
			return a.write(charge{before: q, after: charged})
		}
	}
	return fmt.Errorf("quota %s is charged without having been read", nameOf(charged))
}
