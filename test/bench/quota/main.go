package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/test/harness"
)

// quotas are those that are measured; the first is what the others are compared with.
var quotas = []struct{ name, limited, limit string }{
	{"not limited", "pods", "10"},
	{"count/configmaps", "count/configmaps", "1000000"},
	{"tenantry.io/stored-bytes", "tenantry.io/stored-bytes", "100Gi"},
}

func main() {
	kubeconfig := flag.String("kubeconfig", ".tenantry/admin.kubeconfig", "Credentials of a system administrator.")
	rounds := flag.Int("rounds", 5, "Rounds; in each all quotas are measured in turn.")
	requests := flag.Int("requests", 1500, "Requests of each kind in a round.")
	workers := flag.Int("workers", 8, "Concurrent requests.")
	flag.Parse()
	harness.Main("quota", func(ctx context.Context) error { return run(ctx, *kubeconfig, *rounds, *requests, *workers) })
}

func run(ctx context.Context, kubeconfig string, rounds, requests, workers int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	spaces := make([]*kubernetes.Clientset, len(quotas))
	for i, q := range quotas {
		spec := v1alpha1.TenantSpec{Quota: corev1.ResourceList{corev1.ResourceName(q.limited): resource.MustParse(q.limit)}}
		space, err := harness.NewSpace(ctx, config, fmt.Sprintf("bench-quota-%d", i), spec)
		if err != nil {
			return err
		}
		if spaces[i], err = kubernetes.NewForConfig(space); err != nil {
			return err
		}
	}
	creates, deletes := make([][]measurement, len(quotas)), make([][]measurement, len(quotas))
	for round := range rounds + 1 { // the first warms up
		for i := range spaces {
			i = (i + round) % len(spaces)
			maps := spaces[i].CoreV1().ConfigMaps("default")
			created, err := measure(requests, workers, func(n int) error {
				_, err := maps.Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", n)}, Data: map[string]string{"k": strings.Repeat("v", 300)},
				}, metav1.CreateOptions{})
				return err
			})
			if err != nil {
				return err
			}
			deleted, err := measure(requests, workers, func(n int) error {
				return maps.Delete(ctx, fmt.Sprintf("m-%d", n), metav1.DeleteOptions{})
			})
			if err != nil {
				return err
			}
			if round > 0 {
				creates[i], deletes[i] = append(creates[i], created), append(deletes[i], deleted)
			}
		}
	}
	fmt.Printf("%d rounds, %d requests of each kind, %d at once. Ratios to what is not limited, median of the rounds.\n\n", rounds, requests, workers)
	fmt.Println("| quota | creates, 1/s | ratio | p99 ratio | deletes, 1/s | ratio | p99 ratio |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for i, q := range quotas {
		fmt.Printf("| %s | %s | %s |\n", q.name, compare(creates[i], creates[0]), compare(deletes[i], deletes[0]))
	}
	return nil
}

// measurement is what one kind of request came to in one round.
type measurement struct {
	perSecond float64
	p99       time.Duration
}

func measure(requests, workers int, request func(n int) error) (measurement, error) {
	began := time.Now()
	times, err := harness.Each(0, requests, workers, request)
	return measurement{perSecond: float64(requests) / time.Since(began).Seconds(), p99: harness.Quantile(times, 0.99)}, err
}

// compare returns the rate, and its ratio and that of p99 to what others took in
// the same rounds.
func compare(measured, others []measurement) string {
	var rates, throughput, p99 []float64
	for round, m := range measured {
		rates = append(rates, m.perSecond)
		throughput = append(throughput, m.perSecond/others[round].perSecond)
		p99 = append(p99, float64(m.p99)/float64(others[round].p99))
	}
	return fmt.Sprintf("%.0f | %.2f | %.2f", harness.Median(rates), harness.Median(throughput), harness.Median(p99))
}
