package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
)

const (
	// inTheWay is how many pods run beside which the stuck ones may not be, and stuckPods how many these are: with the
	// default quota a tenant has a thousand.
	inTheWay, stuckPods = 300, 690
	// waveEvery is how often one in the way goes, so that all others are tried again: the scheduler's longest backoff is
	// ten seconds.
	waveEvery = 11 * time.Second
	wayLabel  = "example.com/in-the-way"
)

// besideStuck measures the pods of a tenant, alone and beside another one whose pods find no node, are as costly to try
// as they may be, and are tried again and again.
func (b *bench) besideStuck(ctx context.Context) error {
	places, err := b.newTenants(ctx, stuckPrefix, 2)
	if err != nil {
		return err
	}
	quiet, other := places[:1], places[1]
	if _, err := b.steadily(ctx, "stuck-warm", quiet, nil, 1, quietEvery); err != nil {
		return err
	}
	alone, err := b.steadily(ctx, "stuck-alone", quiet, &b.everywhere, b.quietPods, quietEvery)
	if err != nil {
		return err
	}
	if err := other.fillUp(ctx, b.workers); err != nil {
		return err
	}
	waves, stop := context.WithCancel(ctx)
	defer stop()
	var waving errgroup.Group
	waving.Go(func() error { return other.makeWaves(waves) })
	beside, err := b.steadily(ctx, "stuck-beside", quiet, &b.everywhere, b.quietPods, quietEvery)
	stop()
	if waveErr := waving.Wait(); err == nil {
		err = waveErr
	}
	if err != nil {
		return err
	}
	fmt.Printf("\n| a tenant's %d pods, each after %s: p50, p99, longest, ms | alone | beside another's %d without a node |\n|---|---|---|\n", b.quietPods, quietEvery, stuckPods)
	fmt.Printf("| created on the host to having a node | %s | %s |\n", times(alone.between(onHost, scheduled)), times(beside.between(onHost, scheduled)))
	fmt.Printf("| created to Running | %s | %s |\n", times(alone.between(asked, runs)), times(beside.between(asked, runs)))
	return empty(ctx, places, b.everywhere)
}

// fillUp creates pods that run, and then others that may not be on any of their nodes, and waits until all have been
// tried.
func (p podNamespace) fillUp(ctx context.Context, workers int) error {
	pods := p.client.CoreV1().Pods(p.namespace)
	for _, kind := range []struct {
		name string
		n    int
		make func(*corev1.Pod)
	}{{"way", inTheWay, blocking}, {"stuck", stuckPods, blocked}} {
		if _, err := harness.Each(0, kind.n, workers, func(i int) error {
			pod := podOf(fmt.Sprintf("%s-%05d", kind.name, i))
			kind.make(pod)
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
		if err := harness.Until(ctx, runTimeout, "all pods have been tried", func(ctx context.Context) error {
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for i := range list.Items {
				if !slices.ContainsFunc(list.Items[i].Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }) {
					return fmt.Errorf("pod %s has not been tried", list.Items[i].Name)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// makeWaves deletes pods that are in the way, one after the other, until ctx ends.
func (p podNamespace) makeWaves(ctx context.Context) error {
	for i := range inTheWay {
		if signal.Pause(ctx, waveEvery) != nil {
			return nil
		}
		err := p.client.CoreV1().Pods(p.namespace).Delete(ctx, fmt.Sprintf("way-%05d", i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func blocking(pod *corev1.Pod) { pod.Labels[wayLabel] = "true" }

// blocked has a pod ask for a node whose operating system has no pod that is in the way, by as many terms as a pod of a
// space may have, and to be spread.
func blocked(pod *corev1.Pod) {
	anti := &corev1.PodAntiAffinity{}
	inTheWay := &metav1.LabelSelector{MatchLabels: map[string]string{wayLabel: "true"}}
	for range 32 {
		anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
			LabelSelector: inTheWay, TopologyKey: corev1.LabelOSStable,
		})
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: anti}
	for _, spread := range []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule},
		{TopologyKey: corev1.LabelOSStable, WhenUnsatisfiable: corev1.DoNotSchedule},
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
	} {
		spread.MaxSkew, spread.LabelSelector = 1, inTheWay
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, spread)
	}
}
