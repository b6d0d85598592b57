package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetrics(t *testing.T) {
	all := prometheus.NewRegistry()
	for _, name := range []string{"controller_runtime_reconcile_total", "workqueue_depth", "go_goroutines", "x_controller_runtime_total"} {
		all.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name}))
	}
	shown := prometheus.NewRegistry()
	shown.MustRegister(reconciling{all})
	families, err := shown.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	if diff := cmp.Diff([]string{"controller_runtime_reconcile_total"}, names); diff != "" {
		t.Error(diff)
	}
	if _, ok := Metrics().(reconciling).Gatherer.(prometheus.Collector); !ok {
		t.Error("the registry of controllers cannot be collected")
	}
}
