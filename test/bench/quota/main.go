package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// quotas are those that are measured; the first is what the others are compared with.
var quotas = []struct{ name, limits string }{
	{"not limited", `{"pods":"10"}`},
	{"count/configmaps", `{"count/configmaps":"1000000"}`},
	{"tenantry.io/stored-bytes", `{"tenantry.io/stored-bytes":"100Gi"}`},
}

func main() {
	kubeconfig := flag.String("kubeconfig", ".tenantry/admin.kubeconfig", "Credentials of a system administrator.")
	rounds := flag.Int("rounds", 5, "Rounds; in each all quotas are measured in turn.")
	requests := flag.Int("requests", 1500, "Requests of each kind in a round.")
	workers := flag.Int("workers", 8, "Concurrent requests.")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *kubeconfig, *rounds, *requests, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "quota:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, rounds, requests, workers int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	spaces := make([]*kubernetes.Clientset, len(quotas))
	for i, q := range quotas {
		if spaces[i], err = newSpace(ctx, config, fmt.Sprintf("bench-quota-%d", i), q.limits); err != nil {
			return fmt.Errorf("creating a space with the quota %s: %w", q.limits, err)
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

// newSpace creates a tenant and returns a client of its space when its quota is in
// force.
func newSpace(ctx context.Context, config *rest.Config, name, limits string) (*kubernetes.Clientset, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	tenant := fmt.Appendf(nil, `{"apiVersion":"tenantry.io/v1alpha1","kind":"Tenant","metadata":{"name":%q},"spec":{"quota":%s}}`, name, limits)
	path := "/apis/tenantry.io/v1alpha1/tenants/" + name
	requests := client.CoreV1().RESTClient()
	if err := requests.Patch(types.ApplyPatchType).AbsPath(path).Param("fieldManager", "bench").Body(tenant).Do(ctx).Error(); err != nil {
		return nil, err
	}
	inSpace := rest.CopyConfig(config)
	inSpace.Host += "/tenants/" + name
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		answer, err := requests.Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(answer, []byte(`"SpaceReady"`)) && bytes.Contains(answer, []byte(`"used"`)) {
			return kubernetes.NewForConfig(inSpace)
		}
	}
	return nil, fmt.Errorf("not ready after a minute")
}

// measurement is what one kind of request came to in one round.
type measurement struct {
	perSecond float64
	p99       time.Duration
}

func measure(requests, workers int, request func(n int) error) (measurement, error) {
	times := make([]time.Duration, requests)
	errs := make([]error, workers)
	var next atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for worker := range workers {
		group.Go(func() {
			for n := int(next.Add(1)) - 1; n < requests && errs[worker] == nil; n = int(next.Add(1)) - 1 {
				began := time.Now()
				errs[worker] = request(n)
				times[n] = time.Since(began)
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	for _, err := range errs {
		if err != nil {
			return measurement{}, err
		}
	}
	slices.Sort(times)
	return measurement{perSecond: float64(requests) / took.Seconds(), p99: times[requests*99/100]}, nil
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
	return fmt.Sprintf("%.0f | %.2f | %.2f", median(rates), median(throughput), median(p99))
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
