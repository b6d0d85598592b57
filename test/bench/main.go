package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const namespace = "default"

func main() {
	ours := flag.String("tenantry", "bin/tenantry", "Binary of this project.")
	stock := flag.String("kube-apiserver", "bin/kube-apiserver", "Binary of the stock server.")
	rounds := flag.Int("rounds", 5, "Rounds; in each both servers are measured in turn.")
	requests := flag.Int("requests", 1500, "Requests of each kind in a round.")
	workers := flag.Int("workers", 8, "Concurrent requests.")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, *ours, *stock, *rounds, *requests, *workers); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ours, stock string, rounds, requests, workers int) error {
	dir, err := os.MkdirTemp("", "tenantry-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	a, err := start(ctx, dir, "tenantry", ours, "server", "--controllers=false")
	if err != nil {
		return err
	}
	defer a.stop()
	b, err := start(ctx, dir, "kube-apiserver", stock)
	if err != nil {
		return err
	}
	defer b.stop()
	inSpace, err := space(ctx, a.config, "bench")
	if err != nil {
		return err
	}
	for _, config := range []*rest.Config{inSpace, b.config} {
		if err := fill(ctx, config); err != nil {
			return fmt.Errorf("filling namespace %q: %w", filled, err)
		}
	}
	all := map[string][][2]measurement{}
	for round := range rounds + 1 { // the first warms up
		for _, first := range []bool{round%2 == 0, round%2 != 0} {
			config, at, measured := inSpace, 0, a
			if !first {
				config, at, measured = b.config, 1, b
			}
			results, err := measure(ctx, config, measured.cpu, requests, workers)
			if err != nil {
				return err
			}
			for name, m := range results {
				if len(all[name]) <= round {
					all[name] = append(all[name], [2]measurement{})
				}
				all[name][round][at] = m
			}
		}
	}
	report(all, requests, workers)
	return nil
}

// space creates a tenant with a namespace, for which no controller is needed.
func space(ctx context.Context, config *rest.Config, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	tenant := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Tenant","metadata":{"name":%q}}`, name)
	if err := client.CoreV1().RESTClient().Post().AbsPath("/api/v1/tenants").
		SetHeader("Content-Type", "application/json").Body(tenant).Do(ctx).Error(); err != nil {
		return nil, fmt.Errorf("creating a tenant: %w", err)
	}
	inSpace := rest.CopyConfig(config)
	inSpace.Host += "/tenants/" + name
	client, err = kubernetes.NewForConfig(inSpace)
	if err != nil {
		return nil, err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	return inSpace, err
}

// filled is a namespace with 500 objects of 2 KB, the size of a small pod; those
// that are created and deleted have a fifth of that.
const filled = "filled"

func fill(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: filled}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	data := make([]string, 0, 40)
	for i := range cap(data) {
		data = append(data, fmt.Sprintf("value %d of an object, some fifty characters long", i*7919))
	}
	for i := range 500 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i)}, Data: map[string]string{"k": strings.Join(data, "\n")}}
		if _, err := client.CoreV1().ConfigMaps(filled).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// measurement is what one kind of request came to in one round.
type measurement struct {
	perSecond float64
	p99       time.Duration
	cpu       time.Duration // of the server, for each request
}

func measure(ctx context.Context, config *rest.Config, cpu func() (time.Duration, error), requests, workers int) (map[string]measurement, error) {
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return nil, err
	}
	asJSON := rest.CopyConfig(config)
	asJSON.ContentType = "application/json"
	jsonClient, err := kubernetes.NewForConfig(asJSON)
	if err != nil {
		return nil, err
	}
	maps, jsonMaps := client.CoreV1().ConfigMaps(namespace), jsonClient.CoreV1().ConfigMaps(namespace)
	name := func(i int) string { return fmt.Sprintf("bench-%05d", i) }
	index := func(name string) int {
		i, err := strconv.Atoi(strings.TrimPrefix(name, "bench-"))
		if err != nil {
			return requests // kube-root-ca.crt, for instance
		}
		return i
	}
	watchCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var audience *audience
	opened := sync.OnceValue(func() (err error) {
		audience, err = watchAll(watchCtx, maps, requests, index)
		return err
	})
	results := map[string]measurement{}
	for _, kind := range []struct {
		name  string
		count int
		do    func(i int) error
	}{
		{"create", requests, func(i int) error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
			return err
		}},
		{"get", requests, func(i int) error { _, err := maps.Get(ctx, name(i), metav1.GetOptions{}); return err }},
		{"get, JSON", requests, func(i int) error { _, err := jsonMaps.Get(ctx, name(i), metav1.GetOptions{}); return err }},
		{"list 500", requests / 20, func(int) error { _, err := maps.List(ctx, metav1.ListOptions{Limit: 500}); return err }},
		{"list 500, JSON", requests / 20, func(int) error { _, err := jsonMaps.List(ctx, metav1.ListOptions{Limit: 500}); return err }},
		{"list 500 of 2 KB", requests / 20, func(int) error {
			_, err := client.CoreV1().ConfigMaps(filled).List(ctx, metav1.ListOptions{Limit: 500})
			return err
		}},
		{"list 500 of 2 KB, JSON", requests / 20, func(int) error {
			_, err := jsonClient.CoreV1().ConfigMaps(filled).List(ctx, metav1.ListOptions{Limit: 500})
			return err
		}},
		{"patch", requests, func(i int) error {
			_, err := jsonMaps.Patch(ctx, name(i), types.MergePatchType, []byte(`{"data":{"k":"w"}}`), metav1.PatchOptions{})
			return err
		}},
		{"change seen by 10 watches", requests, func(i int) error {
			if err := opened(); err != nil {
				return err
			}
			if _, err := maps.Patch(ctx, name(i), types.MergePatchType, []byte(`{"data":{"k":"x"}}`), metav1.PatchOptions{}); err != nil {
				return err
			}
			return audience.await(watchCtx, i)
		}},
		{"delete", requests, func(i int) error { return maps.Delete(ctx, name(i), metav1.DeleteOptions{}) }},
	} {
		before, err := cpu()
		if err != nil {
			return nil, err
		}
		m, err := timed(kind.count, workers, kind.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		after, err := cpu()
		if err != nil {
			return nil, err
		}
		m.cpu = (after - before) / time.Duration(kind.count)
		results[kind.name] = m
	}
	return results, nil
}

// timed runs do count times by several workers.
func timed(count, workers int, do func(i int) error) (measurement, error) {
	latencies := make([]time.Duration, count)
	next, failed := make(chan int), make(chan error, workers)
	var group sync.WaitGroup
	began := time.Now()
	for range workers {
		group.Go(func() {
			for i := range next {
				start := time.Now()
				if err := do(i); err != nil && !apierrors.IsTooManyRequests(err) {
					select {
					case failed <- err:
					default:
					}
				}
				latencies[i] = time.Since(start)
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
	elapsed := time.Since(began)
	select {
	case err := <-failed:
		return measurement{}, err
	default:
	}
	slices.Sort(latencies)
	return measurement{perSecond: float64(count) / elapsed.Seconds(), p99: latencies[count*99/100]}, nil
}
