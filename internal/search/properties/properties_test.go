package properties

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

// of returns the properties of an object as NAME:VALUE, with the type if they have one.
func of(t *testing.T, r *Reader, resource schema.GroupResource, obj runtime.Object, columns *Columns) []string {
	t.Helper()
	found, err := r.Of(resource, obj, columns)
	if err != nil {
		t.Error(err)
	}
	texts := []string{}
	for _, p := range found {
		text := p.Name + ":" + p.Value
		if p.Type != "" {
			text += " " + string(p.Type)
		}
		texts = append(texts, text)
	}
	return texts
}

// hidden is in what must not be found.
const hidden = "hidden"

func TestPrinted(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	for name, tc := range map[string]struct {
		object runtime.Object
		want   []string // parts of what there is
		never  []string
	}{
		"a running pod": {&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: long, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web"}}},
			Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c", Image: "nginx:1", Args: []string{"hidden"}, Env: []corev1.EnvVar{{Name: "hidden", Value: "hidden"}}}}},
			Status: corev1.PodStatus{Phase: "Running", PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
				Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True"}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, RestartCount: 3, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: long}}}}},
		}, []string{"status:Running", "ready:1/1", "restarts:3 number", "node:node1", "ip:10.0.0.1", "image:nginx:1", "condition:Ready=True", "owner:ReplicaSet/web"}, []string{"age:", "name:", hidden, "nominated-node:"}},
		"a pod that fails": {&corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
			Status: corev1.PodStatus{Phase: "Running", ContainerStatuses: []corev1.ContainerStatus{{Name: "c",
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}},
		}, []string{"status:CrashLoopBackOff", "ready:0/1"}, nil},
		"a pod that is deleted": {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &long}, Status: corev1.PodStatus{Phase: "Running"}}, []string{"status:Terminating"}, nil},
		"a deployment": {&appsv1.Deployment{
			Spec:   appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}}}},
			Status: appsv1.DeploymentStatus{ReadyReplicas: 1, UpdatedReplicas: 2, AvailableReplicas: 1},
		}, []string{"ready:1/2", "up-to-date:2 number", "available:1 number", "containers:c", "image:nginx"}, []string{"images:"}},
		"a job":       {&batchv1.Job{Status: batchv1.JobStatus{StartTime: &long, Conditions: []batchv1.JobCondition{{Type: "Complete", Status: "True"}}}}, []string{"status:Complete", "condition:Complete=True"}, []string{"duration:"}},
		"a node":      {&corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True"}}}}, []string{"status:Ready", "condition:Ready=True"}, nil},
		"a namespace": {&corev1.Namespace{Status: corev1.NamespaceStatus{Phase: "Active"}}, []string{"status:Active"}, nil},
		"a service":   {&corev1.Service{Spec: corev1.ServiceSpec{Type: "ClusterIP", ClusterIP: "10.1.1.1", ClusterIPs: []string{"10.1.1.1"}, Ports: []corev1.ServicePort{{Port: 80, Protocol: "TCP"}}}}, []string{"type:ClusterIP", "cluster-ip:10.1.1.1", "ports:80/TCP"}, []string{"external-ip:"}},
		"a volume": {&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{"storage": resource.MustParse("10Gi")}}, Status: corev1.PersistentVolumeStatus{Phase: "Bound"}},
			[]string{"status:Bound", "capacity:10Gi number"}, nil},
		"what is not printed": {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: ""}}}}, nil, []string{"image:", "node:", "owner:"}},
	} {
		got := of(t, NewReader(), schema.GroupResource{Resource: "x"}, tc.object, nil)
		for _, want := range tc.want {
			if !containsText(got, func(s string) bool { return s == want }) {
				t.Errorf("%s: no %s in %v", name, want, got)
			}
		}
		for _, never := range tc.never {
			if containsText(got, func(s string) bool {
				return strings.HasPrefix(s, never) || never == hidden && strings.Contains(s, never)
			}) {
				t.Errorf("%s: %s in %v", name, never, got)
			}
		}
	}
}

func containsText(all []string, is func(string) bool) bool {
	for _, s := range all {
		if is(s) {
			return true
		}
	}
	return false
}

// TestPrintedLater has all kinds printed at two times: no property says how long ago something was.
func TestPrintedLater(t *testing.T) {
	for _, age := range []time.Duration{time.Minute, 3 * time.Hour} {
		at := metav1.NewTime(time.Now().Add(-age))
		micro := metav1.NewMicroTime(at.Time)
		for _, object := range []runtime.Object{
			&corev1.Event{FirstTimestamp: at, LastTimestamp: at, EventTime: micro, Series: &corev1.EventSeries{LastObservedTime: micro}, Message: "m"},
			&batchv1.Job{Status: batchv1.JobStatus{StartTime: &at}},
			&batchv1.CronJob{Status: batchv1.CronJobStatus{LastScheduleTime: &at}},
			&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{RestartCount: 1,
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}}}}},
			&corev1.Node{}, &corev1.Service{}, &corev1.ReplicationController{},
		} {
			accessor, _ := object.(metav1.Object)
			accessor.SetCreationTimestamp(at)
			for _, text := range of(t, NewReader(), schema.GroupResource{Resource: "x"}, object, nil) {
				if _, value, _ := strings.Cut(text, ":"); strings.Contains(value, "60s") || strings.Contains(value, "1m") || strings.Contains(value, "3h") || strings.Contains(value, "ago") {
					t.Errorf("%T has %s", object, text)
				}
			}
		}
	}
}

// TestUnchanged has objects that others use, too. Those of some types are their own internal version.
func TestUnchanged(t *testing.T) {
	legacyscheme.Scheme.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: "v1"}, &v1alpha1.Tenant{})
	legacyscheme.Scheme.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: runtime.APIVersionInternal}, &v1alpha1.Tenant{})
	for _, object := range []runtime.Object{
		&v1alpha1.Tenant{TypeMeta: metav1.TypeMeta{Kind: "Tenant", APIVersion: "example.com/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "acme"}},
		&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "b"}, {Image: "a"}}}},
		&corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{"b", "a"}}},
	} {
		before := object.DeepCopyObject()
		of(t, NewReader(), schema.GroupResource{Resource: "x"}, object, nil)
		if diff := cmp.Diff(before, object); diff != "" {
			t.Errorf("%T: %s", object, diff)
		}
	}
}

func TestSecrets(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "a", Name: "b"}}}, Type: "Opaque", Data: map[string][]byte{"hidden": nil}}
	if got := of(t, NewReader(), secrets, secret, nil); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func definition(columns ...apiextensionsv1.CustomResourceColumnDefinition) *Columns {
	return NewColumns(&apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", AdditionalPrinterColumns: columns}},
	}})
}

func widget(content map[string]any) *unstructured.Unstructured {
	content["apiVersion"], content["kind"] = "example.com/v1", "Widget"
	return &unstructured.Unstructured{Object: content}
}

func TestColumns(t *testing.T) {
	object := widget(map[string]any{
		"metadata": map[string]any{"name": "w", "annotations": map[string]any{"a": "hidden"}},
		"spec": map[string]any{"size": int64(5), "ratio": 0.5, "on": true, "color": "red", "since": "2026-01-02T03:04:05+01:00", "list": []any{"a", "b"},
			"nested": map[string]any{"list": []any{map[string]any{"name": "x", "v": "1"}, map[string]any{"name": "y", "v": "2"}}}},
		"status": map[string]any{"phase": "Fine", "conditions": []any{map[string]any{"type": "Ready", "status": "False"}, "odd", map[string]any{"type": int64(1)}}},
	})
	column := func(name, typ, path string) apiextensionsv1.CustomResourceColumnDefinition {
		return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: typ, JSONPath: path}
	}
	for name, tc := range map[string]struct {
		column apiextensionsv1.CustomResourceColumnDefinition
		want   string // empty for none
	}{
		"text":              {column("Color", "string", ".spec.color"), "color:red"},
		"a number":          {column("Size", "integer", ".spec.size"), "size:5 number"},
		"a fraction":        {column("Ratio", "number", ".spec.ratio"), "ratio:0.5 number"},
		"a boolean":         {column("Is On", "boolean", ".spec.on"), "is-on:true"},
		"a time":            {column("Since", "date", ".spec.since"), "since:2026-01-02T02:04:05Z time"},
		"no time":           {column("Since", "date", ".spec.color"), ""},
		"a list":            {column("List", "string", ".spec.list"), `list:["a","b"]`},
		"an element":        {column("First", "string", ".spec.list[0]"), "first:a"},
		"a filter":          {column("V", "string", `.spec.nested.list[?(@.name=="y")].v`), "v:2"},
		"its own status":    {column("Status", "string", ".spec.color"), "status:red"},
		"what is not there": {column("Color", "string", ".spec.colour.name"), ""},
		"its age":           {column("Age", "date", ".metadata.creationTimestamp"), ""},
		"metadata":          {column("Note", "string", ".metadata.annotations.a"), ""},
		"metadata, quoted":  {column("Note", "string", ".['metadata'].annotations.a"), ""},
		"all of it":         {column("Note", "string", "."), ""},
		"any of it":         {column("Note", "string", ".*"), ""},
		"what has a name":   {column("Kind", "string", ".spec.color"), ""},
		"everything below":  {column("Deep", "string", ".spec..v"), ""},
		"a union":           {column("Both", "string", ".spec['color','size']"), ""},
		"a program":         {column("Range", "string", ".spec.color}{range .spec.list}{@}{end"), ""},
		"a nested filter":   {column("V", "string", `.spec.nested.list[?(@.list[?(@.a==1)].b==2)].v`), ""},
		"not readable":      {column("Bad", "string", ".spec["), ""},
	} {
		all := of(t, NewReader(), widgets, object, definition(tc.column))
		others := map[string]bool{"condition:Ready=False": true, "status:Fine": true}
		got := ""
		for _, text := range all {
			if !others[text] {
				got += text
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	if got := of(t, NewReader(), widgets, object, nil); !reflect.DeepEqual(got, []string{"condition:Ready=False", "status:Fine"}) {
		t.Errorf("without columns: %v", got)
	}
	object.SetAPIVersion("example.com/v2")
	if got := of(t, NewReader(), widgets, object, definition(column("Color", "string", ".spec.color"))); len(got) != 2 {
		t.Errorf("columns of another version: %v", got)
	}
}

// TestBounds has objects and definitions that are larger than what is read of them.
func TestBounds(t *testing.T) {
	var columns []apiextensionsv1.CustomResourceColumnDefinition
	for i := range 2 * maxColumns {
		columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{Name: fmt.Sprint("c", i), Type: "string", JSONPath: ".spec.long"})
	}
	columns = append(columns, apiextensionsv1.CustomResourceColumnDefinition{Name: "far", Type: "string", JSONPath: "." + strings.Repeat("a", maxPath)})
	object := widget(map[string]any{"spec": map[string]any{"long": strings.Repeat("\u00e9", maxValue)}})
	got := of(t, NewReader(), widgets, object, definition(columns...))
	if len(got) != maxColumns || len(got[0]) > maxValue+10 {
		t.Errorf("%d properties, the first of %d bytes", len(got), len(got[0]))
	}
	pod := &corev1.Pod{}
	for i := range 2 * maxProperties {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: fmt.Sprint("image", i)})
	}
	if got := of(t, NewReader(), schema.GroupResource{Resource: "pods"}, pod, nil); len(got) != maxProperties {
		t.Errorf("%d properties of a pod", len(got))
	}
}

// TestPanics has an object that what reads it cannot stand.
func TestPanics(t *testing.T) {
	if _, err := NewReader().Of(widgets, (*corev1.Pod)(nil), nil); err == nil {
		t.Error("nothing is said of it")
	}
}

func TestConfigured(t *testing.T) {
	for text, want := range map[string]string{ // part of the error
		"issuer=widgets.example.com:.spec.color":    "",
		"image-name=pods:.spec.containers[*].image": "",
		"issuer":                                      "write NAME=RESOURCE",
		"issuer=widgets.example.com":                  "write NAME=RESOURCE",
		"Issuer=widgets.example.com:.spec.color":      "cannot have this name",
		"kind=widgets.example.com:.spec.color":        "cannot have this name",
		"=widgets.example.com:.spec.color":            "cannot have this name",
		"x=secrets:.data":                             "metadata alone",
		"x=widgets.example.com:spec":                  "is no path",
		"x=widgets.example.com:.metadata.annotations": "--search-annotations",
		"x=widgets.example.com:..a":                   "is no path",
	} {
		_, err := parseConfigured(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := parseConfigured("container=pods:.spec.containers[*].name")
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	var got []string
	for _, text := range of(t, NewReader(c), schema.GroupResource{Resource: "pods"}, pod, nil) {
		if strings.HasPrefix(text, "container:") {
			got = append(got, text)
		}
	}
	if diff := cmp.Diff([]string{"container:a", "container:b"}, got); diff != "" {
		t.Error(diff)
	}
}
