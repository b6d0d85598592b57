package election

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

const namespace, name = "kube-system", "lease"

// quick makes tests short. A lease has whole seconds.
var quick = Timing{Lease: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 20 * time.Millisecond, Grace: time.Minute}

// store is an API server with a lease, which can be away.
type store struct {
	*fake.Clientset
	away atomic.Bool
}

var errAway = errors.New("away")

func newStore() *store {
	s := &store{Clientset: fake.NewClientset()}
	s.PrependReactor("update", "leases", s.conflicts())
	s.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return s.away.Load(), nil, errAway
	})
	return s
}

// conflicts refuses updates of another version, as a server does.
func (s *store) conflicts() clienttesting.ReactionFunc {
	version := 1
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		leases := coordinationv1.SchemeGroupVersion.WithResource("leases")
		stored, err := s.Tracker().Get(leases, lease.Namespace, lease.Name)
		if err != nil {
			return true, nil, err
		}
		if stored.(*coordinationv1.Lease).ResourceVersion != lease.ResourceVersion {
			return true, nil, apierrors.NewConflict(leases.GroupResource(), lease.Name, nil)
		}
		version++
		lease.ResourceVersion = strconv.Itoa(version)
		return false, nil, nil
	}
}

func holder(ctx context.Context, client kubernetes.Interface) string {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// take makes somebody else the holder.
func take(t *testing.T, client kubernetes.Interface, seconds int32) {
	t.Helper()
	leases := client.CoordinationV1().Leases(namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("thief"), LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now}
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// running is a process that has the lease.
type running struct {
	term *Term
	// ended is closed when the work was told to end, and it ends when release is called.
	ended   <-chan struct{}
	release func()
	result  <-chan error
}

func start(t *testing.T, ctx context.Context, c Config) running {
	t.Helper()
	c.Namespace, c.Name = namespace, name
	terms, ended, released, result := make(chan *Term), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		result <- Run(ctx, c, func(ctx context.Context, term *Term) error {
			terms <- term
			<-ctx.Done()
			close(ended)
			<-released
			return ctx.Err()
		})
	}()
	return running{<-terms, ended, func() { close(released) }, result}
}

func request(ctx context.Context, rt http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/", strings.NewReader("body"))
	if err != nil {
		return nil, err
	}
	return rt.RoundTrip(req)
}

// watching answers by a body that ends with the request.
var watching = roundtrip.Func(func(req *http.Request) (*http.Response, error) {
	r, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Body: r}, nil
})

// TestLost takes the lease away in each way. The work is told to end, sends nothing any more, and only then the
// process asks for the lease again.
func TestLost(t *testing.T) {
	for what, loses := range map[string]func(*testing.T, *store){
		"another one has it":      func(t *testing.T, s *store) { take(t, s, 60) },
		"it could not be renewed": func(_ *testing.T, s *store) { s.away.Store(true) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newStore()
			r := start(t, t.Context(), Config{Client: s, Timing: quick})
			fenced := r.term.Fence(watching)
			bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			response, err := request(bounded, fenced)
			if err != nil {
				t.Fatal(err)
			}
			loses(t, s)
			<-r.ended
			if _, err := io.ReadAll(response.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("what was under way ended with %v", err)
			}
			response.Body.Close()
			if _, err := request(context.Background(), fenced); !errors.Is(err, ErrLost) {
				t.Errorf("a request after the lease was lost: %v", err)
			}
			select {
			case err := <-r.result:
				t.Fatalf("Run returned before the work had ended: %v", err)
			default:
			}
			r.release()
			if err := <-r.result; !errors.Is(err, ErrLost) {
				t.Errorf("Run: %v, want %v", err, ErrLost)
			}
		})
	}
}

// TestAnothers gives up what the work still needs, and what another one has by then, as the elector does when it has
// not heard of that: nothing is written.
func TestAnothers(t *testing.T) {
	s := newStore()
	leases, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, name, s.CoreV1(), s.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: "me"})
	if err != nil {
		t.Fatal(err)
	}
	term := newTerm(t.Context(), quick.orDefaults())
	defer term.close()
	l := &lock{Interface: leases, term: term}
	if err := l.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me", LeaseDurationSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, errStillWorking) {
		t.Errorf("giving the lease up while the work goes on: %v", err)
	}
	take(t, s, 60)
	close(term.done)
	if _, _, err := l.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), resourcelock.LeaderElectionRecord{}); !errors.Is(err, errTaken) {
		t.Errorf("giving up another one's lease: %v", err)
	}
	if got := holder(t.Context(), s); got != "thief" {
		t.Errorf("the lease is held by %q", got)
	}
}

// TestEnd ends the process: the lease is renewed until the work has ended, and given up then.
func TestEnd(t *testing.T) {
	s := newStore()
	ctx, cancel := context.WithCancel(t.Context())
	r := start(t, ctx, Config{Client: s, Identity: "me", Timing: quick})
	cancel()
	<-r.ended
	renewals := func() (n int) {
		for _, action := range s.Actions() {
			if action.Matches("update", "leases") {
				n++
			}
		}
		return n
	}
	for before := renewals(); renewals() < before+3; {
		if got := holder(t.Context(), s); got != "me" {
			t.Fatalf("the lease is held by %q while the work ends", got)
		}
	}
	r.release()
	if err := <-r.result; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if got := holder(t.Context(), s); got != "" {
		t.Errorf("the lease is held by %q, and was to be given up", got)
	}
}

// TestStuck has work that does not end. It can do nothing, and the process asks for the lease again, by the same
// identity.
func TestStuck(t *testing.T) {
	s := newStore()
	timing := quick
	timing.Grace = time.Millisecond
	r := start(t, t.Context(), Config{Client: s, Identity: "me", Timing: timing})
	defer r.release()
	take(t, s, 1)
	if err := <-r.result; !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("Run: %v", err)
	}
	next := start(t, t.Context(), Config{Client: s, Identity: "me", Timing: timing})
	defer next.release()
	if _, err := request(t.Context(), r.term.Fence(watching)); !errors.Is(err, ErrLost) {
		t.Errorf("a request of work that has not ended: %v", err)
	}
	if response, err := request(t.Context(), next.term.Fence(watching)); err != nil {
		t.Errorf("a request of its successor: %v", err)
	} else {
		response.Body.Close()
	}
}

// TestStopped has a process that was stopped, so that no timer has gone off.
func TestStopped(t *testing.T) {
	term := newTerm(t.Context(), Timing{RenewDeadline: time.Hour, Grace: time.Hour})
	defer term.close()
	term.hold(time.Now())
	if term.isOver() {
		t.Fatal("it is over when it begins")
	}
	term.mu.Lock()
	term.timer.Stop()
	term.renewed = time.Now().Add(-2 * time.Hour)
	term.mu.Unlock()
	if _, err := request(t.Context(), term.Fence(watching)); !errors.Is(err, ErrLost) {
		t.Errorf("a request: %v", err)
	}
	if !term.wasLost() {
		t.Error("it was not lost")
	}
}

// TestFrom has a lease whose holder is gone, and another one that is waited for first. When it may be taken, it is
// known that its holder is gone.
func TestFrom(t *testing.T) {
	s := newStore()
	r := start(t, t.Context(), Config{Client: s, Identity: "me", Timing: quick})
	take(t, s, 1)
	<-r.ended
	r.release()
	<-r.result
	looks := func() (n int) {
		for _, action := range s.Actions() {
			if action.Matches("get", "leases") {
				n++
			}
		}
		return n
	}
	before, from, taken := looks(), make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- Run(t.Context(), Config{Client: s, Namespace: namespace, Name: name, Timing: quick, From: from}, func(context.Context, *Term) error {
			close(taken)
			return nil
		})
	}()
	until := func(n int) {
		for looks() < n {
			time.Sleep(quick.RetryPeriod)
		}
	}
	until(before + 1)
	time.Sleep(2 * time.Second) // longer than the lease is good
	before = looks()
	until(before + 3)
	if got := holder(t.Context(), s); got != "thief" {
		t.Fatalf("the lease is held by %q before it may be taken", got)
	}
	before = looks()
	close(from)
	<-taken
	if n := looks() - before; n > 2 {
		t.Errorf("it was looked at %d times until it was taken, and was to be taken at once", n)
	}
	if err := <-result; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// TestResult returns what the work does.
func TestResult(t *testing.T) {
	broken := errors.New("broken")
	s := newStore()
	err := Run(t.Context(), Config{Client: s, Namespace: namespace, Name: name, Timing: quick}, func(context.Context, *Term) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Run(ctx, Config{Client: s, Namespace: namespace, Name: name, Timing: quick}, func(context.Context, *Term) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v, want %v", err, context.Canceled)
	}
}
