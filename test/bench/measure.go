package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/test/harness"
)

// parts is how many parts the requests of a kind are divided into. The servers
// take turns at them, so that what else the machine does disturbs both alike.
const parts = 10

// plan is what is measured in a round.
type plan struct {
	requests int
	lists    int
	workers  int
	only     *regexp.Regexp
}

// side is one of the servers that are compared.
type side struct {
	config *rest.Config
	cpu    func() (time.Duration, error)
}

// measurement is what one kind of request came to in one round.
type measurement struct {
	perSecond float64
	p99       time.Duration
	cpu       time.Duration // of the server, for each request
}

// kind is a kind of request.
type kind struct {
	name    string
	count   int
	prepare func() error // if set, is called before the first
	do      func(i int) error
}

func objectName(i int) string { return fmt.Sprintf("bench-%05d", i) }

// indexOf is the opposite of objectName. It is negative for other names, such as
// that of kube-root-ca.crt.
func indexOf(name string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(name, "bench-"))
	if err != nil {
		return -1
	}
	return i
}

// kinds returns what is measured at one server, in order. Watches end with ctx.
func kinds(ctx context.Context, config *rest.Config, plan plan) ([]kind, error) {
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
	list := func(maps coreclient.ConfigMapInterface) func(int) error {
		return func(int) error { _, err := maps.List(ctx, metav1.ListOptions{Limit: 500}); return err }
	}
	patch := func(i int, value string) error {
		_, err := jsonMaps.Patch(ctx, objectName(i), types.MergePatchType, []byte(`{"data":{"k":"`+value+`"}}`), metav1.PatchOptions{})
		return err
	}
	var audience *audience
	return []kind{
		{name: "create", count: plan.requests, do: func(i int) error {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: objectName(i)}, Data: map[string]string{"k": "v"}}
			_, err := maps.Create(ctx, object, metav1.CreateOptions{})
			return err
		}},
		{name: "get", count: plan.requests, do: func(i int) error { _, err := maps.Get(ctx, objectName(i), metav1.GetOptions{}); return err }},
		{name: "get, JSON", count: plan.requests, do: func(i int) error { _, err := jsonMaps.Get(ctx, objectName(i), metav1.GetOptions{}); return err }},
		{name: "list 500", count: plan.lists, do: list(maps)},
		{name: "list 500, JSON", count: plan.lists, do: list(jsonMaps)},
		{name: "list 500 of 2 KB", count: plan.lists, do: list(client.CoreV1().ConfigMaps(filled))},
		{name: "list 500 of 2 KB, JSON", count: plan.lists, do: list(jsonClient.CoreV1().ConfigMaps(filled))},
		{name: "patch", count: plan.requests, do: func(i int) error { return patch(i, "w") }},
		{name: "change seen by 10 watches", count: plan.requests,
			prepare: func() (err error) { audience, err = watchAll(ctx, maps, plan.requests); return err },
			do: func(i int) error {
				if err := patch(i, "x"); err != nil {
					return err
				}
				return audience.await(ctx, i)
			}},
		{name: "delete", count: plan.requests, do: func(i int) error { return maps.Delete(ctx, objectName(i), metav1.DeleteOptions{}) }},
	}, nil
}

// measure returns what each kind of request came to at each side.
func measure(ctx context.Context, sides [2]side, plan plan) (map[string][2]measurement, error) {
	watches, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var all [2][]kind
	for i, side := range sides {
		var err error
		if all[i], err = kinds(watches, side.config, plan); err != nil {
			return nil, err
		}
	}
	results := make(map[string][2]measurement)
	for i, kind := range all[0] {
		measured := plan.only.MatchString(kind.name)
		if !measured && kind.name != "create" && kind.name != "delete" {
			continue
		}
		result, err := compare(sides, [2]stage{{kind: all[0][i]}, {kind: all[1][i]}}, plan.workers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		if measured {
			results[kind.name] = result
		}
	}
	return results, nil
}

// stage is a kind of request at one side while it is measured.
type stage struct {
	kind
	took      time.Duration
	cpu       time.Duration
	latencies []time.Duration
}

// compare lets the sides take turns. The processor time is that which a server has
// taken by the end of the other's turn, for some of it, as of collecting garbage,
// comes after the answers.
func compare(sides [2]side, stages [2]stage, workers int) (results [2]measurement, err error) {
	for i := range stages {
		if prepare := stages[i].prepare; prepare != nil {
			if err := prepare(); err != nil {
				return results, err
			}
		}
		if stages[i].cpu, err = sides[i].cpu(); err != nil {
			return results, err
		}
	}
	for part := range parts {
		for turn := range stages {
			stage := &stages[(part+turn)%2]
			first, end := part*stage.count/parts, (part+1)*stage.count/parts
			began := time.Now()
			latencies, err := harness.Each(first, end, workers, func(i int) error {
				if err := stage.do(i); !apierrors.IsTooManyRequests(err) {
					return err
				}
				return nil
			})
			if err != nil {
				return results, err
			}
			stage.took += time.Since(began)
			stage.latencies = append(stage.latencies, latencies...)
		}
	}
	for i := range stages {
		stage := &stages[i]
		cpu, err := sides[i].cpu()
		if err != nil {
			return results, err
		}
		results[i] = measurement{
			perSecond: float64(stage.count) / stage.took.Seconds(),
			p99:       harness.Quantile(stage.latencies, 0.99),
			cpu:       (cpu - stage.cpu) / time.Duration(stage.count),
		}
	}
	return results, nil
}
