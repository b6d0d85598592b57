package spaces

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestFlatten(t *testing.T) {
	for name, tc := range map[string]struct {
		obj             runtime.Object
		namespace, name string
	}{
		"namespaced":                   {&corev1.Pod{ObjectMeta: objectMeta("a", "ns", "p")}, "a|ns", "p"},
		"cluster-scoped":               {&corev1.Namespace{ObjectMeta: objectMeta("a", "", "ns")}, "", "a|ns"},
		"system":                       {&corev1.Pod{ObjectMeta: objectMeta("", "ns", "p")}, "ns", "p"},
		"metadata":                     {&metav1.PartialObjectMetadata{ObjectMeta: objectMeta("a", "ns", "p")}, "a|ns", "p"},
		"system role like a tenant's":  {&rbacv1.ClusterRole{ObjectMeta: objectMeta("", "", "a|r")}, "", "system|a|r"},
		"tenant's role with separator": {&rbacv1.ClusterRole{ObjectMeta: objectMeta("a", "", "b|r")}, "", "a|b|r"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := flatten(tc.obj); err != nil {
				t.Fatal(err)
			}
			obj := tc.obj.(metav1.Object)
			if obj.GetNamespace() != tc.namespace || obj.GetName() != tc.name {
				t.Errorf("got %s/%s, want %s/%s", obj.GetNamespace(), obj.GetName(), tc.namespace, tc.name)
			}
		})
	}
	if err := flatten(&corev1.Pod{ObjectMeta: objectMeta("not a tenant", "ns", "p")}); err == nil {
		t.Error("an object of an impossible tenant was flattened")
	}
}

// TestActiveJobs checks that the active Jobs of a CronJob are in its namespace, whatever its
// users have written: the controller may delete them.
func TestActiveJobs(t *testing.T) {
	for _, owner := range []string{"a", ""} {
		for _, namespace := range []string{"", "ns", "other", "b|ns", "a|ns"} {
			c := &batchv1.CronJob{
				ObjectMeta: objectMeta(owner, "ns", "c"),
				Status:     batchv1.CronJobStatus{Active: []corev1.ObjectReference{{Kind: "Job", Namespace: namespace, Name: "j"}}},
			}
			if err := flatten(c); err != nil {
				t.Fatal(err)
			}
			if got := c.Status.Active[0].Namespace; got != c.Namespace {
				t.Errorf("a Job in %q of a CronJob in %s is in %q", namespace, c.Namespace, got)
			}
		}
	}
}

// TestFlattenAgrees checks that a typed object and its JSON are flattened alike.
func TestFlattenAgrees(t *testing.T) {
	ref := func() *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p"}
	}
	for name, obj := range map[string]runtime.Object{
		"pod":            &corev1.Pod{ObjectMeta: objectMeta("a", "ns", "p")},
		"endpoint slice": &discoveryv1.EndpointSlice{ObjectMeta: objectMeta("a", "ns", "s"), Endpoints: []discoveryv1.Endpoint{{TargetRef: ref()}}},
		"endpoints": &corev1.Endpoints{ObjectMeta: objectMeta("a", "ns", "e"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{TargetRef: ref()}}, NotReadyAddresses: []corev1.EndpointAddress{{TargetRef: ref()}},
		}}},
		"cron job":        &batchv1.CronJob{ObjectMeta: objectMeta("a", "ns", "c"), Status: batchv1.CronJobStatus{Active: []corev1.ObjectReference{*ref()}}},
		"system":          &corev1.Pod{ObjectMeta: objectMeta("", "ns", "p")},
		"cluster-scoped":  &corev1.PersistentVolume{ObjectMeta: objectMeta("a", "", "v")},
		"binding's users": &rbacv1.RoleBinding{ObjectMeta: objectMeta("a", "ns", "b"), Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ns", Name: "default"}}},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			document, err = (&rewriter{}).rewrite(document, objectRules)
			if err != nil {
				t.Fatal(err)
			}
			var fromJSON unstructured.Unstructured
			if err := json.Unmarshal(document, &fromJSON.Object); err != nil {
				t.Fatal(err)
			}
			trim(&fromJSON, &fromJSON)
			if err := flatten(obj); err != nil {
				t.Fatal(err)
			}
			typed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(typed, fromJSON.Object); diff != "" {
				t.Errorf("typed and JSON differ (-typed +JSON):\n%s", diff)
			}
		})
	}
}

func TestTrim(t *testing.T) {
	annotations := func(more string) map[string]string {
		return map[string]string{tenant.Annotation: "a", corev1.LastAppliedConfigAnnotation: "{}", "x": more}
	}
	root := &corev1.ConfigMap{ObjectMeta: objectMeta("a", "ns", rootCAConfigMap), Data: map[string]string{"ca.crt": "c"}}
	large := &corev1.ConfigMap{ObjectMeta: objectMeta("a", "ns", "large"), Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": nil}}
	large.Annotations = annotations("y")
	token := &corev1.Secret{ObjectMeta: objectMeta("a", "ns", "t"), Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte("t")}}
	opaque := &corev1.Secret{ObjectMeta: objectMeta("a", "ns", "o"), Data: map[string][]byte{"k": []byte("v")}}
	pod := &corev1.Pod{ObjectMeta: objectMeta("a", "ns", "p")}
	pod.Annotations = annotations("y")
	for _, obj := range []runtime.Object{root, large, token, opaque, pod} {
		if err := flatten(obj); err != nil {
			t.Fatal(err)
		}
	}
	if root.Data["ca.crt"] != "c" || root.Annotations != nil {
		t.Errorf("root certificates: %v", root)
	}
	if large.Data != nil || large.BinaryData != nil || !cmp.Equal(large.Annotations, map[string]string{"x": "y"}) {
		t.Errorf("config map: %v", large)
	}
	if string(token.Data["token"]) != "t" || opaque.Data != nil {
		t.Errorf("secrets: %v, %v", token, opaque)
	}
	if len(pod.Annotations) != 2 || pod.ManagedFields != nil {
		t.Errorf("pod: %v", pod.ObjectMeta)
	}
}

func TestSharedValues(t *testing.T) {
	first := sharedMap(map[string]string{"kubernetes.io/metadata.name": "default"})
	second := sharedMap(map[string]string{"kubernetes.io/metadata.name": "default"})
	first["probe"] = ""
	if _, shared := second["probe"]; !shared {
		t.Error("equal maps are not shared")
	}
	delete(first, "probe")
	if other := sharedMap(map[string]string{"kubernetes.io/metadata.name": "other"}); other["kubernetes.io/metadata.name"] != "other" {
		t.Errorf("got %v", other)
	}
	one, other := sharedResources(corev1.ResourceList{"pods": resource.MustParse("1")}), sharedResources(corev1.ResourceList{"pods": resource.MustParse("2")})
	if one.Pods().Value() != 1 || other.Pods().Value() != 2 {
		t.Errorf("got %v, %v", one, other)
	}
	if sharedMap(map[string]string{}) != nil {
		t.Error("values change by being shared")
	}
}
