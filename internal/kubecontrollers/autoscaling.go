package kubecontrollers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// Upstream's defaults.
const (
	autoscalerPeriod        = 15 * time.Second
	downscaleStabilisation  = 5 * time.Minute
	autoscalerTolerance     = 0.1
	cpuInitialisation       = 5 * time.Minute
	initialReadinessDelayed = 30 * time.Second
)

func newHorizontalPodAutoscaler(ctx context.Context, e *environment) (runner, error) {
	versions := custom_metrics.NewAvailableAPIsGetter(e.discovery)
	client, err := newMetricsClient(e, versions)
	if err != nil {
		return nil, err
	}
	c := podautoscaler.NewHorizontalController(ctx, e.client.CoreV1(), e.scales, e.client.AutoscalingV2(), e.mapper,
		client, e.debts.autoscalers(e.informers.Autoscaling().V2().HorizontalPodAutoscalers()), e.informers.Core().V1().Pods(),
		autoscalerPeriod, downscaleStabilisation, autoscalerTolerance, cpuInitialisation, initialReadinessDelayed)
	return runFunc(func(ctx context.Context, workers int) {
		go custom_metrics.PeriodicallyInvalidate(versions, autoscalerPeriod, ctx.Done())
		c.Run(ctx, workers)
	}), nil
}

// newMetricsClient returns the client of all metrics APIs.
func newMetricsClient(e *environment, versions custom_metrics.AvailableAPIsGetter) (metrics.MetricsClient, error) {
	config := metricsConfig(e.unwrapped, e.options)
	resources, err := resourceclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the metrics client: %w", err)
	}
	external, err := external_metrics.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the external metrics client: %w", err)
	}
	return metrics.NewRESTMetricsClient(resources, custom_metrics.NewForConfig(config, e.mapper, versions), external), nil
}
