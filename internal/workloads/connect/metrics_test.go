package connect

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/metrics/pkg/apis/metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// began is when the host's pods were made.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// metered is a host that answers lists of pods and of their metrics, by its namespaces.
type metered struct {
	*httptest.Server
	pods map[string][]metav1.PartialObjectMetadata
	used map[string][]metricsv1beta1.PodMetrics
	// status is the answer of the metrics API, and podsStatus that of pods, 200 if zero.
	status, podsStatus int
	got                []url.URL
}

func newMetered(t *testing.T) *metered {
	m := &metered{pods: map[string][]metav1.PartialObjectMetadata{}, used: map[string][]metricsv1beta1.PodMetrics{}}
	m.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		m.got = append(m.got, *req.URL)
		w.Header().Set("Content-Type", "application/json")
		answer := func(status int, list any) {
			if status != 0 {
				w.WriteHeader(status)
				list = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(status), Message: "in tn-secret"}
			}
			_ = json.NewEncoder(w).Encode(list)
		}
		path, ofMetrics := strings.CutPrefix(req.URL.Path, "/apis/metrics.k8s.io/v1beta1/namespaces/")
		namespace := strings.TrimSuffix(strings.TrimPrefix(path, "/api/v1/namespaces/"), "/pods")
		if ofMetrics {
			answer(m.status, metricsv1beta1.PodMetricsList{Items: m.used[namespace]})
			return
		}
		answer(m.podsStatus, metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: m.pods[namespace],
		})
	}))
	t.Cleanup(m.Close)
	return m
}

// add adds a pod of the host with the marks of one of a space, which uses something since it was made.
func (m *metered) add(of names.Namespace, name, uid, cpu string, containers ...string) {
	m.pods[of.Host()] = append(m.pods[of.Host()], metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(began), Labels: of.Labels(), Annotations: of.MarksOf(name, types.UID(uid)),
	}})
	used := metricsv1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: of.Host(), Name: name}, Timestamp: metav1.NewTime(began.Add(time.Minute))}
	for _, c := range containers {
		used.Containers = append(used.Containers, metricsv1beta1.ContainerMetrics{Name: c, Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}})
	}
	m.used[of.Host()] = append(m.used[of.Host()], used)
}

// metricsOf returns what serves the metrics of a space with pods, by a host.
func (m *metered) metricsOf(t *testing.T, pods ...core.Pod) *Metrics {
	config := Config{
		Host: &restclient.Config{Host: m.URL, TLSClientConfig: restclient.TLSClientConfig{CAData: pemOf(m.Certificate())}},
		HomeOf: func(_ context.Context, _ tenant.Name, namespace string) (names.Namespace, error) {
			return home(namespace), nil
		},
	}
	pod := space{others: pods}
	h, err := newHost(config, pod)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := newMetrics(h, pod)
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

// home is the namespace of metricsOf.
func home(namespace string) names.Namespace {
	home := shop
	home.Name, home.UID = namespace, types.UID("uid-of-"+namespace)
	return home
}

// running is a pod of the space that is bound, with one container and an ephemeral one.
func running(namespace, name, uid string) core.Pod {
	return core.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Labels: map[string]string{"app": name}},
		Spec: core.PodSpec{NodeName: "node", Containers: []core.Container{{Name: "c"}},
			EphemeralContainers: []core.EphemeralContainer{{EphemeralContainerCommon: core.EphemeralContainerCommon{Name: "debugger"}}}},
	}
}

// shown are the namespaces, names and containers of metrics with their CPU.
func shown(list *metrics.PodMetricsList) []string {
	found := []string{}
	for _, pod := range list.Items {
		for _, c := range pod.Containers {
			found = append(found, pod.Namespace+"/"+pod.Name+"/"+c.Name+"="+c.Usage.Cpu().String())
		}
	}
	return found
}

// TestMetrics checks that a tenant sees what its own pods use, in its own containers, and nothing else.
func TestMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		host func(*metered)
		pods []core.Pod
		want []string
	}{
		"its pods, in all namespaces": {
			host: func(m *metered) {
				m.add(home("shop"), "web-0", "p", "1", "c")
				m.add(home("bank"), "web-0", "q", "2", "c")
			},
			pods: []core.Pod{running("shop", "web-0", "p"), running("bank", "web-0", "q")},
			want: []string{"bank/web-0/c=2", "shop/web-0/c=1"},
		},
		"by the names of its containers alone": {
			host: func(m *metered) { m.add(home("shop"), "web-0", "p", "1", "sidecar", "c", "tn-debugger", "debugger") },
			pods: []core.Pod{running("shop", "web-0", "p")},
			want: []string{"shop/web-0/c=1", "shop/web-0/debugger=1"},
		},
		"none of containers that the host has added": {
			host: func(m *metered) { m.add(home("shop"), "web-0", "p", "1", "sidecar") },
			pods: []core.Pod{running("shop", "web-0", "p")},
		},
		"none of a pod that had the name before": {
			host: func(m *metered) { m.add(home("shop"), "web-0", "before", "1", "c") },
			pods: []core.Pod{running("shop", "web-0", "p")},
		},
		"none that were taken of one that had the name before": {
			host: func(m *metered) {
				m.add(home("shop"), "web-0", "p", "1", "c")
				m.used[home("shop").Host()][0].Timestamp = metav1.NewTime(began.Add(-time.Second))
			},
			pods: []core.Pod{running("shop", "web-0", "p")},
		},
		"none of a pod without its marks": {
			host: func(m *metered) {
				m.add(home("shop"), "web-0", "p", "1", "c")
				m.pods[home("shop").Host()][0].Annotations = nil
			},
			pods: []core.Pod{running("shop", "web-0", "p")},
		},
		"none of another tenant's pod, wherever it is": {
			host: func(m *metered) {
				m.add(home("shop"), "web-0", "p", "1", "c")
				other := home("shop")
				other.TenantUID = "other"
				m.pods[home("shop").Host()][0].Annotations = other.MarksOf("web-0", "p")
			},
			pods: []core.Pod{running("shop", "web-0", "p")},
		},
		"none of a pod that the space has not": {
			host: func(m *metered) {
				m.add(home("shop"), "web-0", "p", "1", "c")
				m.add(home("shop"), "canary", "q", "1", "c")
			},
			pods: []core.Pod{running("shop", "web-0", "p")},
			want: []string{"shop/web-0/c=1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t)
			tc.host(m)
			got, err := m.metricsOf(t, tc.pods...).list(inShop(t, "list"), &metainternalversion.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]string{}, tc.want...), shown(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMetricsOfOne checks what is shown of one pod, and what the host is asked for it.
func TestMetricsOfOne(t *testing.T) {
	m := newMetered(t)
	m.add(home("shop"), "web-0", "p", "250m", "c")
	served := m.metricsOf(t, running("shop", "web-0", "p"), running("shop", "web-1", "q"), running("bank", "web-2", "r"))
	obj, err := served.Get(inShop(t, "get"), "web-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &metrics.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web-0"}, Annotations: map[string]string{tenant.Annotation: "acme"}},
		Timestamp:  metav1.NewTime(began.Add(time.Minute)),
		Containers: []metrics.ContainerMetrics{{Name: "c", Usage: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}},
	}
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Error(diff)
	}
	var asked []string
	for _, u := range m.got {
		asked = append(asked, u.Path+"?"+u.Query().Get("fieldSelector"))
	}
	of := "/namespaces/" + home("shop").Host() + "/pods?metadata.name=web-0"
	if diff := cmp.Diff([]string{"/api/v1" + of, "/apis/metrics.k8s.io/v1beta1" + of}, asked); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"web-1", "nothing"} {
		if _, err := served.Get(inShop(t, "get"), name, nil); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetricsBySelector checks that the host is asked by labels that its pods have, too.
func TestMetricsBySelector(t *testing.T) {
	m := newMetered(t)
	m.add(home("shop"), "web-0", "p", "1", "c")
	m.add(home("shop"), "web-1", "q", "1", "c")
	own := running("shop", "web-0", "p")
	own.Labels[names.Prefix+"mine"] = "x"
	selector, err := labels.Parse("app in (web-0)," + names.Prefix + "mine=x")
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.metricsOf(t, own, running("shop", "web-1", "q")).list(inShop(t, "list"), &metainternalversion.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop/web-0/c=1"}, shown(got)); diff != "" {
		t.Error(diff)
	}
	for _, u := range m.got {
		if u.Query().Get("labelSelector") != "app in (web-0)" {
			t.Errorf("got %v", u.RawQuery)
		}
	}
}

// TestMetricsOfNothing checks that nobody asks the host for pods that are not on it.
func TestMetricsOfNothing(t *testing.T) {
	m := newMetered(t)
	pending, ended := running("shop", "pending", "p"), running("shop", "ended", "q")
	pending.Spec.NodeName, ended.Status.Phase = "", core.PodSucceeded
	served := m.metricsOf(t, pending, ended)
	system := genericapirequest.WithNamespace(tenant.WithSpace(t.Context(), tenant.System), "shop")
	for _, ctx := range []context.Context{inShop(t, "list"), system} {
		if got, err := served.list(ctx, &metainternalversion.ListOptions{}); err != nil || len(got.Items) > 0 {
			t.Errorf("got %v, %v", got, err)
		}
	}
	if len(m.got) > 0 {
		t.Errorf("the host was asked: %v", m.got)
	}
	if _, err := served.List(t.Context(), &metainternalversion.ListOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("without a space: %v", err)
	}
}

// TestMetricsUnavailable checks what is said where the host has no metrics, without its names.
func TestMetricsUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*metered)
		says   string
	}{
		"no metrics API":    {func(m *metered) { m.status = http.StatusNotFound }, "install metrics-server"},
		"one that is down":  {func(m *metered) { m.status = http.StatusServiceUnavailable }, "cannot be reached"},
		"no right":          {func(m *metered) { m.status = http.StatusForbidden }, "apply config/workloads again"},
		"no right to pods":  {func(m *metered) { m.podsStatus = http.StatusForbidden }, "apply config/workloads again"},
		"no host, any more": {func(m *metered) { m.Close() }, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetered(t)
			m.add(home("shop"), "web-0", "p", "1", "c")
			served := m.metricsOf(t, running("shop", "web-0", "p"))
			tc.change(m)
			_, err := served.List(inShop(t, "list"), &metainternalversion.ListOptions{})
			if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "tn-") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestMetricsAtOnce checks that a tenant has so many requests for metrics at once, and others go on.
func TestMetricsAtOnce(t *testing.T) {
	served := newMetered(t).metricsOf(t)
	var ends []func()
	for range maxMetrics {
		end, _ := served.asking.begin("acme")
		ends = append(ends, end)
	}
	if _, err := served.List(inShop(t, "list"), &metainternalversion.ListOptions{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v", err)
	}
	if _, err := served.List(tenant.WithSpace(t.Context(), "globex"), &metainternalversion.ListOptions{}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	for _, end := range slices.Backward(ends) {
		end()
	}
	if _, err := served.List(inShop(t, "list"), &metainternalversion.ListOptions{}); err != nil {
		t.Error(err)
	}
	if served.asking.open.Len() > 0 {
		t.Error("they are counted on")
	}
}
