package sync

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tenantry/tenantry/internal/tenant"
)

// fewSurplus is how many uncounted pods, gone in the space and still running on the host, a tenant may always have.
const fewSurplus = 10

// errSurplus is that too many pods of a tenant have not ended on the host.
var errSurplus = errors.New("the host still runs as many pods of the tenant as its space has besides, and its quota counts those no more: the pod waits until they have ended")

// surplus bounds the pods on the host by what spaces count: no new one begins while more of a tenant's run there
// without being counted than with it. Of a tenant without pods on the host it knows nothing.
type surplus struct {
	mu       sync.Mutex
	byTenant map[tenant.Name]*balance
}

// balance has how many pods of a tenant run on the host.
type balance struct {
	byItem           map[item]running
	counted, surplus int
}

// running are the pods on the host of one name that have not ended.
type running struct{ counted, surplus int }

func newSurplus() *surplus { return &surplus{byTenant: map[tenant.Name]*balance{}} }

// note notes which pods of the host there are for one of a space, nil if that is gone.
func (s *surplus) note(i item, pod *corev1.Pod, all []*corev1.Pod) {
	var now running
	for _, host := range all {
		switch {
		case podv1.IsPodTerminal(host):
		case pod != nil && uidOf(host) == pod.UID && !podv1.IsPodTerminal(pod):
			now.counted++
		default:
			now.surplus++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.byTenant[i.tenant]
	if b == nil {
		b = &balance{byItem: map[item]running{}}
		s.byTenant[i.tenant] = b
	}
	before := b.byItem[i]
	b.counted += now.counted - before.counted
	b.surplus += now.surplus - before.surplus
	if b.byItem[i] = now; now == (running{}) {
		delete(b.byItem, i)
	}
	if len(b.byItem) == 0 {
		delete(s.byTenant, i.tenant)
	}
}

// allow returns nil if one more pod of a tenant may run on the host.
func (s *surplus) allow(n tenant.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.byTenant[n]; b != nil && b.surplus >= max(fewSurplus, b.counted) {
		return errSurplus
	}
	return nil
}
