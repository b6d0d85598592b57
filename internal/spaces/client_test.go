package spaces

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// exchange is one request as the server saw it and what it answered.
type exchange struct {
	method, uri, accept, body string

	status int
	answer string
}

// serve starts a server that answers the next requests with the given answers
// and records what they were.
func serve(t *testing.T, exchanges ...*exchange) *rest.Config {
	t.Helper()
	next := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if next == len(exchanges) {
			t.Errorf("unexpected request %s %s", req.Method, req.RequestURI)
			return
		}
		e := exchanges[next]
		next++
		body, _ := io.ReadAll(req.Body)
		e.method, e.uri, e.body, e.accept = req.Method, req.RequestURI, strings.TrimSpace(string(body)), req.Header.Get("Accept")
		w.Header().Set("Content-Type", "application/json")
		if e.status != 0 {
			w.WriteHeader(e.status)
		}
		if _, err := io.WriteString(w, e.answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

const (
	configMapOfA = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"ns","annotations":{"tenantry.io/tenant":"a"}},"data":{"namespace":"ns"}}`
	namespaceOfA = `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ns","annotations":{"tenantry.io/tenant":"a"}}}`
	success      = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}`
)

func TestRequests(t *testing.T) {
	ctx := t.Context()
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for name, tc := range map[string]struct {
		do     func(c *kubernetes.Clientset, d dynamic.Interface, m metadata.Interface) (metav1.Object, error)
		answer string
		method string
		uri    string
		body   string
		want   types.NamespacedName
	}{
		"get namespaced": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().ConfigMaps("a|ns").Get(ctx, "x", metav1.GetOptions{})
			},
			answer: configMapOfA, method: "GET", uri: "/tenants/a/api/v1/namespaces/ns/configmaps/x",
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"get namespaced in the system space": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().ConfigMaps("ns").Get(ctx, "x", metav1.GetOptions{})
			},
			answer: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"ns"}}`,
			method: "GET", uri: "/api/v1/namespaces/ns/configmaps/x",
			want: types.NamespacedName{Namespace: "ns", Name: "x"},
		},
		"get cluster-scoped": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().Namespaces().Get(ctx, "a|ns", metav1.GetOptions{})
			},
			answer: namespaceOfA, method: "GET", uri: "/tenants/a/api/v1/namespaces/ns",
			want: types.NamespacedName{Name: "a|ns"},
		},
		"create cluster-scoped": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a|ns"}}, metav1.CreateOptions{})
			},
			answer: namespaceOfA, method: "POST", uri: "/tenants/a/api/v1/namespaces",
			body: `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ns"},"spec":{},"status":{}}`,
			want: types.NamespacedName{Name: "a|ns"},
		},
		"finalize namespace": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().Namespaces().Finalize(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a|ns"}}, metav1.UpdateOptions{})
			},
			answer: namespaceOfA, method: "PUT", uri: "/tenants/a/api/v1/namespaces/ns/finalize",
			body: `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ns"},"spec":{},"status":{}}`,
			want: types.NamespacedName{Name: "a|ns"},
		},
		"scale, without a content type": { // as client-go's scale client sends it for autoscalers
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				scale := []byte(`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"x","namespace":"a|ns"},"spec":{"replicas":2}}`)
				return &metav1.ObjectMeta{Namespace: "a|ns", Name: "x"}, c.AppsV1().RESTClient().Put().
					AbsPath("/apis/apps/v1/namespaces/a|ns/deployments/x/scale").Body(scale).Do(ctx).Error()
			},
			answer: `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"x","namespace":"ns"}}`,
			method: "PUT", uri: "/tenants/a/apis/apps/v1/namespaces/ns/deployments/x/scale",
			body: `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"x","namespace":"ns"},"spec":{"replicas":2}}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"event, reference and text": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().Events("a|ns").Create(ctx, &corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: "a|ns"},
					InvolvedObject: corev1.ObjectReference{Namespace: "a|ns", Name: "p"},
					Message:        `killed a|ns/p, not ba|x: Get "https://h/api/v1/namespaces/a%7Cns/pods/p": EOF`,
				}, metav1.CreateOptions{})
			},
			answer: `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"ns"}}`,
			method: "POST", uri: "/tenants/a/api/v1/namespaces/ns/events",
			body: `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"ns"},"involvedObject":{"namespace":"ns","name":"p"},"message":"killed ns/p, not ba|x: Get \"https://h/api/v1/namespaces/ns/pods/p\": EOF","source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "e"},
		},
		"event of a cluster-scoped object": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().Events("default").Create(ctx, &corev1.Event{
					ObjectMeta:     metav1.ObjectMeta{Name: "a|ns.1", Namespace: "default"},
					InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Name: "a|ns"},
					Message:        "a|ns is gone",
				}, metav1.CreateOptions{})
			},
			answer: `{"kind":"Event","apiVersion":"v1","metadata":{"name":"ns.1","namespace":"default"}}`,
			method: "POST", uri: "/tenants/a/api/v1/namespaces/default/events",
			body: `{"kind":"Event","apiVersion":"v1","metadata":{"name":"ns.1","namespace":"default"},"involvedObject":{"kind":"Namespace","name":"ns"},"message":"ns is gone","source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}`,
			want: types.NamespacedName{Namespace: "a|default", Name: "ns.1"},
		},
		"text alone": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().Events("a|ns").Patch(ctx, "e", types.StrategicMergePatchType,
					[]byte(`{"count":2,"message":"https://h/namespaces/a%7Cns/pods"}`), metav1.PatchOptions{})
			},
			answer: `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"ns"}}`,
			method: "PATCH", uri: "/tenants/a/api/v1/namespaces/ns/events/e",
			body: `{"count":2,"message":"https://h/namespaces/ns/pods"}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "e"},
		},
		"active jobs": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				job := []byte(`{"kind":"CronJob","apiVersion":"batch/v1","metadata":{"name":"x","namespace":"a|ns"},"status":{"active":[{"kind":"Job","namespace":"a|ns","name":"j"}]}}`)
				return &metav1.ObjectMeta{Namespace: "a|ns", Name: "x"}, c.BatchV1().RESTClient().Put().
					AbsPath("/apis/batch/v1/namespaces/a|ns/cronjobs/x/status").Body(job).Do(ctx).Error()
			},
			answer: `{"kind":"CronJob","apiVersion":"batch/v1","metadata":{"name":"x","namespace":"ns"}}`,
			method: "PUT", uri: "/tenants/a/apis/batch/v1/namespaces/ns/cronjobs/x/status",
			body: `{"kind":"CronJob","apiVersion":"batch/v1","metadata":{"name":"x","namespace":"ns"},"status":{"active":[{"kind":"Job","namespace":"ns","name":"j"}]}}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"contents stay": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().ConfigMaps("a|ns").Update(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "a|ns", Labels: map[string]string{"namespace": "a|ns"}},
					Data:       map[string]string{"namespace": "a|ns"},
				}, metav1.UpdateOptions{})
			},
			answer: configMapOfA, method: "PUT", uri: "/tenants/a/api/v1/namespaces/ns/configmaps/x",
			body: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"ns","labels":{"namespace":"a|ns"}},"data":{"namespace":"a|ns"}}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"server-side apply": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().ConfigMaps("a|ns").Apply(ctx, applycorev1.ConfigMap("x", "a|ns"), metav1.ApplyOptions{FieldManager: "m"})
			},
			answer: configMapOfA, method: "PATCH", uri: "/tenants/a/api/v1/namespaces/ns/configmaps/x?fieldManager=m&force=false",
			body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"ns"}}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"JSON patch": {
			do: func(c *kubernetes.Clientset, _ dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				return c.CoreV1().ConfigMaps("a|ns").Patch(ctx, "x", types.JSONPatchType,
					[]byte(`[{"op":"test","path":"/metadata/namespace","value":"a|ns"},{"op":"add","path":"/data/x","value":"a|ns"}]`), metav1.PatchOptions{})
			},
			answer: configMapOfA, method: "PATCH", uri: "/tenants/a/api/v1/namespaces/ns/configmaps/x",
			body: `[{"op":"test","path":"/metadata/namespace","value":"ns"},{"op":"add","path":"/data/x","value":"a|ns"}]`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"dynamic": {
			do: func(_ *kubernetes.Clientset, d dynamic.Interface, _ metadata.Interface) (metav1.Object, error) {
				obj := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "apiVersion": "v1"}}
				obj.SetName("x")
				obj.SetNamespace("a|ns")
				return d.Resource(configMaps).Namespace("a|ns").Create(ctx, obj, metav1.CreateOptions{})
			},
			answer: configMapOfA, method: "POST", uri: "/tenants/a/api/v1/namespaces/ns/configmaps",
			body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"ns"}}`,
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
		"metadata": {
			do: func(_ *kubernetes.Clientset, _ dynamic.Interface, m metadata.Interface) (metav1.Object, error) {
				return m.Resource(configMaps).Namespace("a|ns").Get(ctx, "x", metav1.GetOptions{})
			},
			answer: `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x","namespace":"ns"}}`,
			method: "GET", uri: "/tenants/a/api/v1/namespaces/ns/configmaps/x",
			want: types.NamespacedName{Namespace: "a|ns", Name: "x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &exchange{answer: tc.answer}
			config := NewClientConfig(serve(t, e))
			obj, err := tc.do(kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config), metadata.NewForConfigOrDie(config))
			if err != nil {
				t.Fatal(err)
			}
			if e.method != tc.method || e.uri != tc.uri {
				t.Errorf("request %s %s, want %s %s", e.method, e.uri, tc.method, tc.uri)
			}
			if strings.Contains(e.accept, "protobuf") {
				t.Errorf("Accept: %s", e.accept)
			}
			if diff := cmp.Diff(tc.body, e.body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.want, types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLists(t *testing.T) {
	const items = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` +
		`{"metadata":{"name":"x","namespace":"ns","annotations":{"tenantry.io/tenant":"a"}}},{"metadata":{"name":"x","namespace":"ns"}}]}`
	for name, tc := range map[string]struct {
		namespace, selector string
		uri                 string
		want                []string
	}{
		"all spaces": {uri: "/tenants/*/api/v1/configmaps", want: []string{"a|ns", "ns"}},
		"namespace":  {namespace: "a|ns", uri: "/tenants/a/api/v1/namespaces/ns/configmaps", want: []string{"a|ns", "a|ns"}},
		"selector": {
			selector: "metadata.namespace=a|ns", uri: "/tenants/a/api/v1/configmaps?fieldSelector=metadata.namespace%3Dns",
			want: []string{"a|ns", "a|ns"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &exchange{answer: items}
			client := kubernetes.NewForConfigOrDie(NewClientConfig(serve(t, e)))
			list, err := client.CoreV1().ConfigMaps(tc.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: tc.selector})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.Items {
				got = append(got, item.Namespace)
			}
			if e.uri != tc.uri {
				t.Errorf("request %s, want %s", e.uri, tc.uri)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	e := &exchange{answer: `{"type":"ADDED","object":` + namespaceOfA + `}` + "\n" + `{"type":"BOOKMARK","object":{"kind":"Namespace","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}`}
	client := kubernetes.NewForConfigOrDie(NewClientConfig(serve(t, e)))
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var got []string
	for event := range w.ResultChan() {
		got = append(got, string(event.Type)+" "+event.Object.(*corev1.Namespace).Name)
	}
	if diff := cmp.Diff([]string{"ADDED a|ns", "BOOKMARK "}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestIdentities(t *testing.T) {
	e := &exchange{answer: `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x","namespace":"ns","uid":"1","ownerReferences":[{"kind":"K","name":"o","uid":"2"}]}}`}
	deleted, reported := &exchange{answer: success}, &exchange{answer: success}
	config := NewIdentityClientConfig(serve(t, e, deleted, reported))
	client := metadata.NewForConfigOrDie(config)
	resource := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("a|ns")
	obj, err := resource.Get(t.Context(), "a|x", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{
		Namespace: "a|ns", Name: "a|x", UID: "a|1",
		OwnerReferences: []metav1.OwnerReference{{Kind: "K", Name: "a|o", UID: "a|2"}},
	}
	if diff := cmp.Diff(want, obj.ObjectMeta); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	uid := types.UID("a|1")
	if err := resource.Delete(t.Context(), "a|x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Fatal(err)
	}
	event := `{"metadata":{"name":"e","namespace":"default"},"involvedObject":{"kind":"a|Gear","name":"a|x","uid":"a|1","apiVersion":"g.test/v1"},"message":"m"}`
	err = kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/default/events").Body([]byte(event)).Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(event, "a|", ""); reported.body != want || reported.uri != "/tenants/a/api/v1/namespaces/default/events" {
		t.Errorf("POST %s %s, want %s", reported.uri, reported.body, want)
	}
	if !strings.Contains(deleted.body, `"preconditions":{"uid":"1"}`) || deleted.uri != "/tenants/a/api/v1/namespaces/ns/configmaps/x" {
		t.Errorf("DELETE %s %s", deleted.uri, deleted.body)
	}
}

// TestNotFound checks that only what the server says of an object counts, and
// that a resource that a space does not have is empty there.
func TestNotFound(t *testing.T) {
	const (
		noObject   = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"o","kind":"things","group":"g"}}`
		noResource = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{}}`
		noTenant   = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{"name":"a","kind":"tenants"}}`
	)
	things := schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
	for name, tc := range map[string]struct {
		answer string
		gone   bool
	}{
		"object":       {noObject, true},
		"resource":     {noResource, false},
		"tenant":       {noTenant, false},
		"another page": {`404 page not found`, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := metadata.NewForConfigOrDie(NewIdentityClientConfig(serve(t, &exchange{status: 404, answer: tc.answer})))
			_, err := client.Resource(things).Get(t.Context(), "a|o", metav1.GetOptions{})
			if err == nil || apierrors.IsNotFound(err) != tc.gone {
				t.Errorf("got %v", err)
			}
		})
	}
	client := metadata.NewForConfigOrDie(NewClientConfig(serve(t,
		&exchange{status: 404, answer: noResource}, &exchange{status: 404, answer: noResource})))
	list, err := client.Resource(things).Namespace("a|ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("list of a resource that the space lacks: %v, %v", list, err)
	}
	if err := client.Resource(things).Namespace("a|ns").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Errorf("deletecollection of a resource that the space lacks: %v", err)
	}
	// An autoscaler asks for the metrics of its space, which may have none.
	whole := dynamic.NewForConfigOrDie(NewClientConfig(serve(t, &exchange{status: 404, answer: noResource})))
	if _, err := whole.Resource(things).Namespace("a|ns").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list of objects of a resource that the space lacks: %v", err)
	}
}

// TestForeignNames checks that no request names two spaces.
func TestForeignNames(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(NewClientConfig(serve(t))).CoreV1()
	for name, do := range map[string]func() error{
		"body": func() error {
			_, err := client.Events("a|ns").Create(t.Context(), &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: "e", Namespace: "a|ns"},
				InvolvedObject: corev1.ObjectReference{Namespace: "b|ns"},
			}, metav1.CreateOptions{})
			return err
		},
		"body without a space": func() error {
			_, err := (&rewriter{unflatten: true}).rewrite([]byte(`{"metadata":{"namespace":"a|ns"},"involvedObject":{"namespace":"b|ns"}}`), objectRules)
			return err
		},
		"name": func() error {
			_, err := client.ConfigMaps("a|ns").Get(t.Context(), "b|x", metav1.GetOptions{})
			return err
		},
		"selector": func() error {
			_, err := client.ConfigMaps("a|ns").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.namespace=b|ns"})
			return err
		},
		"everything": func() error {
			_, err := client.ConfigMaps("*|ns").List(t.Context(), metav1.ListOptions{})
			return err
		},
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "space") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
