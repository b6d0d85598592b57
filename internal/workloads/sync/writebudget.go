package sync

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// budgetKind says what is counted together: for each kind a tenant has a rate of its own.
type budgetKind uint8

const (
	changeBudget     budgetKind = iota // pods of the host that are changed
	creationBudget                     // pods that are made there
	copyBudget                         // copies of ConfigMaps and Secrets
	smallBudget                        // what is small, see smallBytes
	resizeBudget                       // resizes of pods and claims
	routeBudget                        // what is read by those that serve Ingresses and HTTPRoutes, see routesPerSecond
	sliceBudget                        // slices of Services
	comparisonBudget                   // endpoints that are compared with slices
	statusBudget                       // statuses that are written into spaces
)

var budgetRates = [...]struct{ perSecond, atOnce int }{
	changeBudget:     {changedBytes, changedAtOnce},
	creationBudget:   {createdBytes, createdAtOnce},
	copyBudget:       {copiedBytes, copiedAtOnce},
	smallBudget:      {smallBytes, smallAtOnce},
	resizeBudget:     {resizesPerSecond, resizesAtOnce},
	routeBudget:      {routesPerSecond, routesAtOnce},
	sliceBudget:      {slicedBytes, slicedAtOnce},
	comparisonBudget: {comparedPerSecond, comparedAtOnce},
	statusBudget:     {moreStatuses, moreAtOnce},
}

const (
	// changedBytes is how many bytes of pods are changed on the host for a tenant in a second, and changedAtOnce how many
	// there may be before that holds. They are some 40 MB in the five minutes after which a host's etcd forgets them.
	changedBytes  = 128 << 10
	changedAtOnce = 4 << 20
	// createdBytes and createdAtOnce are the same for pods that are made: at once a thousand pods of 10 kB, with all
	// that is written of them, and nine of these in a second after that, which are some 220 MB in the five minutes.
	createdBytes  = 512 << 10
	createdAtOnce = 64 << 20
	// copiedBytes and copiedAtOnce are the same for copies of ConfigMaps and Secrets.
	copiedBytes  = 128 << 10
	copiedAtOnce = 16 << 20
	// smallBytes and smallAtOnce are the same for policies, claims, Services, budgets, and namespaces with their
	// labels, which go to all nodes, too. The burst is all policies that a namespace may have, at 4 KiB each, five
	// times.
	smallBytes  = 128 << 10
	smallAtOnce = 4 << 20
	// resizesPerSecond and resizesAtOnce are the same for resizes of pods and claims, each of which is work for a
	// kubelet or a provisioner.
	resizesPerSecond = 2
	resizesAtOnce    = 64
	// routesPerSecond is how many Ingresses, HTTPRoutes, certificates, and Services with load balancers, are changed
	// for a tenant in a second, and routesAtOnce how many before that holds: some controllers read all they serve anew
	// at each change.
	routesPerSecond = 1
	routesAtOnce    = 40
	// slicedBytes and slicedAtOnce are changedBytes and changedAtOnce for slices, which are written whole when one pod
	// of theirs changes. They are not of the budget of small objects: readiness that changes all the time keeps no
	// policy waiting.
	slicedBytes  = 128 << 10
	slicedAtOnce = 4 << 20
	// comparedPerSecond and comparedAtOnce are the same for what is compared with slices, see comparisons, some 10 µs
	// each: chosen, a tenth of a processor for each tenant.
	comparedPerSecond = 10_000
	comparedAtOnce    = 100_000
	// statusesAtOnce is how many statuses of a pod are written into its space at once, and statusInterval after which
	// time there may be one more: chosen, a pod that begins has some five.
	statusesAtOnce = 15
	statusInterval = 20 * time.Second
	// moreStatuses is how many statuses of pods beyond statusesAtOnce, and of HTTPRoutes, are written into the space of
	// a tenant in a second, and moreAtOnce before that holds.
	moreStatuses = 10
	moreAtOnce   = 50
)

const (
	// maxPodBytes is how large a pod may be on the host, in bytes as a host stores it, without its status and the
	// variables of Services: each of its changes, and of its status by a kubelet, is stored whole there. It is how
	// large a change of it may be, too.
	maxPodBytes = 128 << 10
	// maxDebt is for how long a write waits at most before it is counted anew, if its namespace has its part of the
	// rate. Each other one has less than that before it, so that with 200 of them a write waits for half an hour at
	// most.
	maxDebt = 5 * time.Minute
	// leastCopy is as how many bytes a copy, or a small object, counts at least.
	leastCopy = translate.LeastBytes
	// writesOfPod is how often a host stores a pod that is made: itself, its node, some statuses, its end.
	writesOfPod = 6
	// writesOfClaim is how often a host stores a claim that is made: itself, what its provisioner notes, its volume,
	// two statuses.
	writesOfClaim = 5
	// writesOfNamespace is how often a host stores a namespace that is made: itself, that it is bound, its deletion,
	// its end.
	writesOfNamespace = 4
	// writesOfResize is how often a host stores a pod that is resized: with what the syncer notes before and after that.
	writesOfResize = 3
	// resizeBytes is for how many bytes that are written a resize counts once more.
	resizeBytes = 64 << 10
)

// errTooLarge is that the host's pod would be larger than it may be.
type errTooLarge string

// Error implements error.
func (e errTooLarge) Error() string { return string(e) }

// tooLarge returns why a pod cannot be on the host as it is wanted, empty if it can. wanted may be nil, and change is
// how many bytes are written to make it so.
func tooLarge(wanted *corev1.Pod, change int) string {
	n := change
	if wanted != nil {
		n = max(n, sizeOf(wanted))
	}
	if n > maxPodBytes {
		return fmt.Sprintf("it has %d bytes on the host cluster, and may have %d: large values of its environment, commands, arguments and annotations belong into ConfigMaps and Secrets",
			n, maxPodBytes)
	}
	return ""
}

// sizeOf returns how large the host's pod is, in bytes as it stores it, without its status.
func sizeOf(host *corev1.Pod) int {
	written, err := host.Marshal()
	if err != nil {
		return maxPodBytes + 1 // it cannot be sent, either
	}
	return len(written) + translate.EntryBytes*entriesOf(host)
}

// entriesOf returns how many entries there are in the lists of a pod whose entries are known by a key.
func entriesOf(host *corev1.Pod) int {
	spec := &host.Spec
	n := len(host.Labels) + len(host.Annotations) + len(spec.Volumes) + len(spec.HostAliases) + len(spec.ImagePullSecrets) +
		len(spec.TopologySpreadConstraints) + len(spec.ResourceClaims)
	podv1.VisitContainers(spec, podv1.AllContainers, func(c *corev1.Container, _ podv1.ContainerType) bool {
		n += 1 + len(c.Env) + len(c.Ports) + len(c.VolumeMounts) + len(c.VolumeDevices) + len(c.Resources.Limits) + len(c.Resources.Requests) + len(c.Resources.Claims)
		return true
	})
	return n
}

// storedSize is sizeOf the host's pod for one of a space, with the variables that it has of Services.
func (s *syncer) storedSize(pod, wanted *corev1.Pod) int {
	services, _ := s.services.Services(pod.Namespace).List(labels.Everything()) // informers of a factory have this index
	whole := wanted.DeepCopy()
	s.options.SetVariables(whole, pod, services)
	return sizeOf(whole)
}

// writeBudget has writes wait whose tenant has many of them, or many bytes: one small write in a space, such as that of
// a policy, changes all pods of a namespace, and a host stores each of them whole. It knows tenants for which something
// was written of late.
type writeBudget struct {
	clock clock.PassiveClock
	// perSecond is how much is written for a tenant in a second, and atOnce how much before that holds.
	perSecond, atOnce int

	mu       sync.Mutex
	byTenant map[tenant.Name]*spent
}

// spent is what has been spent for a tenant.
type spent struct {
	limiter *rate.Limiter
	// due are the writes that wait and have been counted.
	due map[itemWrite]due
	// until is when what has been counted for a namespace will have been written, if those that wait have equal parts
	// of the rate.
	until map[string]time.Time
	// swept is when writes were forgotten for which nobody has come.
	swept time.Time
}

// due is when a write may be made, and what has been counted for it: its size, in parts if it has grown since.
type due struct {
	at      time.Time
	size    int
	counted []*rate.Reservation
}

func newWriteBudget(c clock.PassiveClock, perSecond, atOnce int) *writeBudget {
	return &writeBudget{clock: c, perSecond: perSecond, atOnce: atOnce, byTenant: map[tenant.Name]*spent{}}
}

// writeBudgets are those of all kinds.
type writeBudgets [len(budgetRates)]*writeBudget

func newWriteBudgets(c clock.PassiveClock) (all writeBudgets) {
	for k, rate := range budgetRates {
		all[k] = newWriteBudget(c, rate.perSecond, rate.atOnce)
	}
	return all
}

// drop gives back what has been counted for an item that is gone.
func (all *writeBudgets) drop(i item) {
	for _, of := range all {
		of.drop(i)
	}
}

// postpone reports whether what is written for an item, and counts as so much, is to wait. If so, the
// item is looked at when its turn comes. An item has one write of a kind that waits, but for changes
// of pods: see postponePod.
func (s *syncer) postpone(k budgetKind, i item, size int) bool {
	return s.queue.after(i, s.writeBudgets[k].wait(itemWrite{i, writeUpdate}, size))
}

// postponePod reports whether a write about a pod of the host, which is to be as wanted and is stored so many times for
// it, is to wait. If so, the pod is looked at when its turn comes. wanted is not the host's in the cache, which has not
// all of it.
func (s *syncer) postponePod(pod *corev1.Pod, w write, wanted *corev1.Pod, times int) bool {
	i := itemOf(podItem, pod)
	return s.queue.after(i, s.writeBudgets[changeBudget].wait(itemWrite{i, w}, times*s.storedSize(pod, wanted)))
}

// storable is an object of a known size, in bytes as a host stores it.
type storable interface {
	metav1.Object
	Size() int
}

// postponeSmall reports whether a small object of the host, which is to be as wanted and is stored so many times for
// it, is to wait. If so, the item is looked at when its turn comes. entries is how many there are in its lists and maps
// beside its metadata.
func (s *syncer) postponeSmall(i item, wanted storable, entries, times int) bool {
	return s.postpone(smallBudget, i, max(times*storedBytes(wanted, entries), leastCopy))
}

// storedBytes returns how many bytes a host stores for a small object.
func storedBytes(wanted storable, entries int) int {
	return wanted.Size() + translate.EntryBytes*(entries+len(wanted.GetLabels())+len(wanted.GetAnnotations()))
}

// postponeResize reports whether a resize for which so many bytes are written is to wait. If so, the item is looked at
// when its turn comes.
func (s *syncer) postponeResize(i item, bytes int) bool {
	return s.postpone(resizeBudget, i, 1+bytes/resizeBytes)
}

// postponeStatus reports whether the status of a pod is to wait. If so, the pod is looked at when its
// turn comes. Those wait whose readiness changes all the time: a kubelet tells of each change, and a
// write into a space costs the server of all tenants some milliseconds. How far a pod has come does
// not wait.
func (s *syncer) postponeStatus(pod, host *corev1.Pod) bool {
	i := itemOf(podItem, pod)
	if s.statuses.Take(s.clock.Now(), i, 1) == 0 || pod.Status.Phase != host.Status.Phase {
		s.writeBudgets[statusBudget].drop(i)
		return false
	}
	return s.postpone(statusBudget, i, 1)
}

// wait counts a write of some size, and returns for how long it is to wait until it is asked for again. Those of a
// tenant come in the order in which they were first asked for. Beyond maxDebt those of namespaces are counted that have
// less than their part of what waits.
func (s *writeBudget) wait(w itemWrite, size int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	of := s.byTenant[w.item.tenant]
	if of == nil {
		s.forget(now)
		of = &spent{limiter: rate.NewLimiter(rate.Limit(s.perSecond), s.atOnce), due: map[itemWrite]due{}, until: map[string]time.Time{}, swept: now}
		s.byTenant[w.item.tenant] = of
	}
	size = min(size, s.atOnce)
	before, waits := of.due[w]
	if wait := before.at.Sub(now); waits && wait > 0 {
		return wait
	}
	more := size - before.size // nothing has been counted yet, or it was smaller then
	if more <= 0 {
		delete(of.due, w)
		return 0
	}
	of.sweep(now)
	namespace := cmp.Or(w.item.namespace.String(), w.item.name) // of one of the host, the name is all there is
	counted := of.limiter.ReserveN(now, more)
	wait := counted.DelayFrom(now)
	switch {
	case wait > maxDebt && of.until[namespace].Sub(now) >= maxDebt:
		counted.CancelAt(now)
		return maxDebt
	case wait > 0:
		of.due[w] = due{now.Add(wait), size, append(before.counted, counted)}
		of.until[namespace] = slices.MaxFunc([]time.Time{now, of.until[namespace]}, time.Time.Compare)
		alone := float64(more) / float64(s.perSecond) * float64(time.Second)
		of.until[namespace] = of.until[namespace].Add(time.Duration(len(of.until)) * time.Duration(alone))
	default:
		delete(of.due, w)
	}
	return wait
}

// sweep forgets namespaces of which nothing waits, and from time to time writes for which nobody has come.
func (of *spent) sweep(now time.Time) {
	maps.DeleteFunc(of.until, func(_ string, at time.Time) bool { return !at.After(now) })
	if now.Sub(of.swept) > maxDebt {
		of.swept = now
		maps.DeleteFunc(of.due, func(_ itemWrite, d due) bool { return now.Sub(d.at) > 2*maxDebt })
	}
}

// drop gives back what has been counted for the writes of an item that is gone.
func (s *writeBudget) drop(i item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byTenant[i.tenant]
	if of == nil {
		return
	}
	for w := range writes {
		if waits, ok := of.due[itemWrite{i, w}]; ok {
			for _, counted := range slices.Backward(waits.counted) {
				counted.CancelAt(s.clock.Now())
			}
			delete(of.due, itemWrite{i, w})
		}
	}
}

// forget forgets tenants for which nothing counts any more, with writes that they had and did not make.
func (s *writeBudget) forget(now time.Time) {
	for n, of := range s.byTenant {
		if of.limiter.TokensAt(now) >= float64(s.atOnce) {
			delete(s.byTenant, n)
		}
	}
}
