package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/tenant"
)

// fromEnvironment returns a number of the environment, such as ORACLE_SEED, which repeats a run that has failed.
func fromEnvironment(name string, otherwise uint64) uint64 {
	GinkgoHelper()
	text, ok := os.LookupEnv(name)
	if !ok || text == "" {
		return otherwise
	}
	number, err := strconv.ParseUint(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), name)
	return number
}

// state is what a subject may list in a space, by the server's authorizer and lists of all resources.
type state struct {
	allowed sets.Set[object]
	objects contents
	// rights is the last revision of what controllers change that decides rights.
	rights string
}

var _ = Describe("the oracle", func() {
	// decisions is how many are compared in the gate.
	const decisions = 5000

	It("finds what the server's authorizer allows, object by object, while rights and objects change", func(ctx SpecContext) {
		seed := fromEnvironment("ORACLE_SEED", uint64(time.Now().UnixNano()))
		By(fmt.Sprintf("ORACLE_SEED=%d", seed))
		w := newWorld(ctx, rand.New(rand.NewPCG(seed, 1)))
		w.fill(ctx)
		wanted, compared, raced, granted := int(fromEnvironment("ORACLE_DECISIONS", decisions)), 0, 0, 0
		// Some seeds begin with few rights: it goes on for longer then.
		for compared < wanted || granted <= compared/50 && compared < 5*wanted {
			who := w.subjects[w.random.IntN(len(w.subjects))]
			n := w.spaceFor(who)
			now := w.state(ctx, who, n)
			for range 4 {
				answers, what := w.race(ctx, who, n)
				next, found := w.settle(ctx, who, n)
				Expect(difference(found, next)).To(BeEmpty(), "seed %d: %s of %s in %s after: %s", seed, who.user, who.of, n, what)
				if now.rights == next.rights || len(answers) == 0 {
					for _, answer := range answers {
						if diff := difference(answer, now); diff != "" {
							Expect(difference(answer, next)).To(BeEmpty(), "seed %d: %s of %s in %s, during: %s; before it: %s", seed, who.user, who.of, n, what, diff)
						}
						raced++
					}
				}
				w.compareSeveral(ctx, who, n, fmt.Sprintf("seed %d: %s of %s after: %s", seed, who.user, who.of, what))
				w.compareDetails(ctx, who, n, next, fmt.Sprintf("seed %d: %s of %s in %s after: %s", seed, who.user, who.of, n, what))
				compared += len(next.objects)
				granted += len(next.allowed)
				now = next
			}
		}
		GinkgoWriter.Printf("compared %d decisions, %d of them allow; %d answers during a change\n", compared, granted, raced)
		Expect(granted).To(BeNumerically(">", compared/50), "too few rights to compare")
		Expect(granted).To(BeNumerically("<", compared*9/10), "too many rights to compare")
	}, NodeTimeout(2*time.Hour))
})

// fill makes something to find, and rights.
func (w *world) fill(ctx context.Context) {
	GinkgoHelper()
	for _, n := range w.order {
		for i := range 60 {
			who := w.subjects[w.random.IntN(len(w.subjects))]
			for _, write := range []func() (string, error){
				func() (string, error) { return w.mutateObject(ctx, n) },
				func() (string, error) { return w.mutateBinding(ctx, n, who) },
				func() (string, error) { return w.mutateRole(ctx, n) },
			}[:2+i%2] {
				what, err := write()
				Expect(err).NotTo(HaveOccurred(), what)
			}
		}
	}
	for range 20 {
		for _, write := range []func() (string, error){
			func() (string, error) { return w.mutatePolicy(ctx, w.order[1+w.random.IntN(3)]) },
			func() (string, error) { return w.mutateScoped(ctx) },
			func() (string, error) { return w.mutateTenant(ctx) },
		} {
			what, err := write()
			Expect(err).NotTo(HaveOccurred(), what)
		}
	}
}

// spaceFor returns a space in which a subject asks: its own or, every fourth time, any.
func (w *world) spaceFor(who subject) tenant.Name {
	if w.random.IntN(4) == 0 || who.of == tenant.System {
		return w.order[w.random.IntN(len(w.order))]
	}
	return who.of
}

// state asks for what is allowed now, again if controllers have changed something meanwhile.
func (w *world) state(ctx context.Context, who subject, n tenant.Name) state {
	GinkgoHelper()
	for {
		before := rightsRevision(ctx)
		objects, err := w.list(ctx, n)
		Expect(err).NotTo(HaveOccurred())
		allowed, err := w.allowed(ctx, who, n, objects)
		Expect(err).NotTo(HaveOccurred())
		if rightsRevision(ctx) == before {
			return state{allowed, objects, before}
		}
	}
}

// rightsRevision tells what controllers write of rights: they aggregate ClusterRoles.
func rightsRevision(ctx context.Context) string {
	GinkgoHelper()
	response, err := tenantry.Etcd().Get(ctx, "/registry/clusterroles/", clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(1))
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprint(response.Count, response.Kvs[0].ModRevision)
}

// race searches while something changes, and returns all answers and what has changed.
func (w *world) race(ctx context.Context, who subject, n tenant.Name) ([]sets.Set[object], string) {
	GinkgoHelper()
	var mu sync.Mutex
	var answers []sets.Set[object]
	var asking sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		asking.Go(func() {
			defer GinkgoRecover()
			for {
				answer, err := w.found(ctx, who, n, "")
				switch {
				case isRefused(err, who):
					answer = sets.New[object]()
				case apierrors.IsServiceUnavailable(err): // rights that change all the time
					continue
				default:
					Expect(err).NotTo(HaveOccurred())
				}
				mu.Lock()
				answers = append(answers, answer)
				mu.Unlock()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	what, err := w.mutate(ctx, n, who)
	close(done)
	asking.Wait()
	Expect(err).NotTo(HaveOccurred(), what)
	return answers, what
}

// settle returns what is allowed and what is found, in this order. Where they differ it looks whether what is allowed
// is another thing by now, and then compares anew: controllers write rights and objects, those of specs before this
// one, too, and the authorizer is behind the rights for a moment.
func (w *world) settle(ctx context.Context, who subject, n tenant.Name) (state, sets.Set[object]) {
	GinkgoHelper()
	for now := w.state(ctx, who, n); ; {
		found := w.settled(ctx, who, n)
		if difference(found, now) == "" {
			return now, found
		}
		then := w.state(ctx, who, n)
		if now.equal(then) {
			return then, found
		}
		now = then
	}
}

// equal reports whether the same is there and the same is allowed.
func (s state) equal(other state) bool {
	return s.allowed.Equal(other.allowed) && sets.KeySet(s.objects).Equal(sets.KeySet(other.objects))
}

// settled searches when everything that was written is in the index.
func (w *world) settled(ctx context.Context, who subject, n tenant.Name) sets.Set[object] {
	GinkgoHelper()
	response, err := tenantry.Etcd().Get(ctx, "/registry/")
	Expect(err).NotTo(HaveOccurred())
	found, err := w.found(ctx, who, n, strconv.FormatInt(response.Header.Revision, 10))
	if isRefused(err, who) {
		return sets.New[object]()
	}
	Expect(err).NotTo(HaveOccurred())
	return found
}

// compareSeveral compares what is found in two spaces at once with what is found in each. Who is refused in one of them
// is refused.
func (w *world) compareSeveral(ctx context.Context, who subject, n tenant.Name, what string) {
	GinkgoHelper()
	other := w.order[w.random.IntN(len(w.order))]
	if other == n {
		return
	}
	counts, refused := map[tenant.Name]int{}, false
	for _, each := range []tenant.Name{n, other} {
		answer, err := try(ctx, tenantry.In(each, who.config), "kind:!Event", "")
		if refused = refused || isRefused(err, who); refused {
			continue
		}
		Expect(err).NotTo(HaveOccurred(), what)
		counts[each] = len(answer.Items)
	}
	answer, err := try(ctx, tenantry.In(n, who.config), fmt.Sprintf("kind:!Event space:%s,%s", n, other), "")
	if refused {
		Expect(isRefused(err, who)).To(BeTrue(), "%s: in %s and %s: %v", what, n, other, err)
		return
	}
	Expect(err).NotTo(HaveOccurred(), what)
	found := map[tenant.Name]int{}
	for _, item := range answer.Items {
		found[tenant.Name(item.Space)]++
	}
	for _, each := range []tenant.Name{n, other} {
		Expect(found[each]).To(Equal(counts[each]), "%s: in %s of %s and %s", what, each, n, other)
	}
}

// isRefused reports whether a user is not let into a space: that of another tenant, which has no policy for it, or one
// of a tenant that is suspended. Who is refused finds nothing, and it is an error if there is something.
func isRefused(err error, who subject) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) && who.of != tenant.System
}

// difference says what is in one of both alone. Objects that come and go by themselves, such as leases of
// the process and events, are left to the authorizer's say if they are not in the list any more.
func difference(found sets.Set[object], expected state) string {
	text := ""
	for o := range found {
		if expected.objects[o] != nil && !expected.allowed.Has(o) {
			text += fmt.Sprintf("found, and not allowed: %v\n", o)
		}
		if expected.objects[o] == nil && !transient(o) {
			text += fmt.Sprintf("found, and not there: %v\n", o)
		}
	}
	for o := range expected.allowed {
		if !found.Has(o) && !transient(o) {
			text += fmt.Sprintf("allowed, and not found: %v\n", o)
		}
	}
	return text
}

// transient reports whether others than the oracle create and delete such objects.
func transient(o object) bool {
	switch o.resource.Resource {
	case "events":
		return true
	default:
		return false
	}
}
