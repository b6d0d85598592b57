package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/harness"
)

const (
	// changers change pods, each one pod after another, with pauses of at most longestPause.
	changers, longestPause = 8, 300 * time.Millisecond
	// besideShare is after how many of these changes one follows of a ConfigMap or a Service.
	besideShare = 4
	// longestLife is the longest time that a syncer works before it is killed, and longestStart that for which one
	// waits that is killed before it works.
	longestLife, longestStart = 8 * time.Second, 4 * time.Second
	// settleTimeout is how long it may take until both sides are equal, and tellEvery how often it is told what differs
	// meanwhile.
	settleTimeout, tellEvery = 10 * time.Minute, time.Minute
	// mostShown is how many differences are told.
	mostShown = 20
)

// changing is a pod that comes, is changed, and goes.
type changing struct {
	in   podNamespace
	name string
	// uid is that which it is to have, none if it is not to be there.
	uid     types.UID
	edition string
}

// survive kills the syncer at random moments, beside pods of tenants that come, are changed and go, with Services and a
// ConfigMap, and fails if one of the two sides has anything then that the other has not, or if the host has had two
// pods for one.
func (b *bench) survive(ctx context.Context) error {
	seen := &twice{hosts: map[types.UID]types.UID{}}
	if err := b.everywhere.follow(ctx, names.InstallationLabel, seen.see); err != nil {
		return err
	}
	if err := b.everywhere.follow(ctx, names.InstallationLabel, func(pod *corev1.Pod, gone bool) { b.everywhere.end(ctx, pod, gone) }); err != nil {
		return err
	}
	if _, err := harness.Each(0, len(b.spaces), b.workers, func(i int) error { return b.spaces[i].prepare(ctx) }); err != nil {
		return err
	}
	pods := make([]*changing, b.pods)
	for i := range pods {
		pods[i] = &changing{in: b.spaces[i%len(b.spaces)], name: fmt.Sprintf("changing-%05d", i)}
	}
	if _, err := harness.Each(0, len(pods), b.workers, func(i int) error { return pods[i].create(ctx) }); err != nil {
		return err
	}
	fmt.Printf("\n| %d pods of %d tenants, and kills for %s, seed %d | |\n|---|---|\n", b.pods, len(b.spaces), b.kill, b.seed)
	changes, err := b.killAmid(ctx, pods)
	if err != nil {
		return err
	}
	harness.Row("creations, changes, deletions of pods", "%d, %d, %d", changes[0], changes[1], changes[2])
	if err := b.settled(ctx, pods); err != nil {
		return err
	}
	now, err := b.sides(ctx)
	if err != nil {
		return err
	}
	there, found := seen.all()
	if err := errors.Join(tell("the host has had two pods for one of a space", found), tell("the watch of the host has missed pods", seen.missed(now.hostPods))); err != nil {
		return err
	}
	harness.Row("pods that were on the host, and of these more than once", "%d, none", there)
	return empty(ctx, b.spaces, b.everywhere)
}

// end ends a pod that is being deleted, as a kubelet does.
func (p podNamespace) end(ctx context.Context, pod *corev1.Pod, gone bool) {
	if gone || pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err := p.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "workloads: ending a pod of the host:", err)
	}
}

// killAmid kills while pods are changed, and returns how many were created, changed and deleted.
func (b *bench) killAmid(ctx context.Context, pods []*changing) (sum [3]int, _ error) {
	until := time.Now().Add(b.kill)
	var changing errgroup.Group
	var changes [changers][3]int
	for worker := range changers {
		changing.Go(func() error {
			random := rand.New(rand.NewPCG(b.seed, uint64(worker)))
			for time.Now().Before(until) {
				pod := pods[worker+changers*random.IntN(len(pods)/changers)]
				done, err := pod.change(ctx, random)
				if err != nil {
					return err
				}
				if done > 0 || pod.uid != "" { // or its name is taken for now
					changes[worker][done]++
				}
				if random.IntN(besideShare) == 0 {
					if err := pod.in.changeBeside(ctx, fmt.Sprint("changing-", worker), random); err != nil {
						return err
					}
				}
				if err := signal.Pause(ctx, time.Duration(random.Int64N(int64(longestPause)))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := errors.Join(b.killUntil(ctx, until), changing.Wait())
	for _, of := range changes {
		for i := range sum {
			sum[i] += of[i]
		}
	}
	return sum, err
}

// create creates the pod, unless one of its name still ends.
func (c *changing) create(ctx context.Context) error {
	pod := podOf(c.name)
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settingsName}}}}
	made, err := c.in.client.CoreV1().Pods(c.in.namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", c.name, err)
	}
	c.uid, c.edition = made.UID, ""
	return nil
}

// change creates the pod, gives it another label, or deletes it, at times by force, and returns which of these it has
// done.
func (c *changing) change(ctx context.Context, random *rand.Rand) (done int, err error) {
	pods := c.in.client.CoreV1().Pods(c.in.namespace)
	switch {
	case c.uid == "":
		return 0, c.create(ctx)
	case random.IntN(2) == 0:
		edition := strconv.FormatUint(random.Uint64(), 36)
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:%q}}}`, c.uid, editionLabel, edition)
		if _, err := pods.Patch(ctx, c.name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return 1, fmt.Errorf("changing pod %s, which nobody has deleted: %w", c.name, err)
		}
		c.edition = edition
		return 1, nil
	default:
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(c.uid))}
		if random.IntN(6) == 0 {
			options.GracePeriodSeconds = new(int64(0))
		}
		if err := pods.Delete(ctx, c.name, options); err != nil {
			return 2, fmt.Errorf("deleting pod %s, which nobody has deleted: %w", c.name, err)
		}
		c.uid = ""
		return 2, nil
	}
}

// killUntil kills one syncer after another, of which some do not work yet, and says what they have left halfway.
func (b *bench) killUntil(ctx context.Context, until time.Time) error {
	random := rand.New(rand.NewPCG(b.seed, changers))
	var kills, early, begun, orphans, most int
	for ; time.Now().Before(until); kills++ {
		life := longestLife
		if random.IntN(4) == 0 {
			life = longestStart
			early++
		} else if err := b.syncer.awaitHost(ctx); err != nil {
			return err
		}
		if err := signal.Pause(ctx, time.Duration(random.Int64N(int64(life)))); err != nil {
			return err
		}
		harness.End(b.syncer.command, os.Kill)
		left, err := b.sides(ctx)
		if err != nil {
			return err
		}
		created, orphaned := left.halfway()
		begun, orphans, most = begun+created, orphans+orphaned, max(most, created)
		if b.syncer, err = startSyncer(ctx, b.dir, b.spacesFile, b.hostFile); err != nil {
			return err
		}
	}
	harness.Row("kills, and of these before the syncer worked", "%d, %d", kills, early)
	harness.Row("pods that a killed syncer has left on the host without their token, or their space without knowing their node: in all, and most at once", "%d, %d", begun, most)
	harness.Row("pods that were on the host then and in no space any more", "%d", orphans)
	return nil
}

// settled waits until both sides are as they are to be, and then that they stay so.
func (b *bench) settled(ctx context.Context, pods []*changing) error {
	wanted := map[types.UID]string{}
	for _, pod := range pods {
		if pod.uid != "" {
			wanted[pod.uid] = pod.edition
		}
	}
	differences := func(ctx context.Context) error {
		now, err := b.sides(ctx)
		if err != nil {
			return err
		}
		return tell("the spaces and the host differ", now.differences(wanted))
	}
	began := time.Now()
	if err := b.syncer.awaitHost(ctx); err != nil {
		return err
	}
	works := time.Since(began)
	told := began
	err := harness.Until(ctx, settleTimeout, "both sides are equal", func(ctx context.Context) error {
		err := differences(ctx)
		if err != nil && time.Since(told) > tellEvery {
			told = time.Now()
			fmt.Fprintln(os.Stderr, "workloads:", err)
		}
		return errors.Join(err, signal.Pause(ctx, step))
	})
	if err != nil {
		return err
	}
	harness.Row(fmt.Sprintf("until both sides are equal, with %d pods, after the last change, and of that until the last syncer works", len(wanted)), "%.1f s, %.1f s",
		time.Since(began).Seconds(), works.Seconds())
	if _, err := b.syncer.waitIdle(ctx); err != nil {
		return err
	}
	return differences(ctx)
}

// tell returns an error that says what was found, if there is anything.
func tell(what string, found []string) error {
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%s in %d ways:\n%s", what, len(found), strings.Join(found[:min(len(found), mostShown)], "\n"))
}
