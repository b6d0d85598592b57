package memory

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestOf(t *testing.T) {
	type pair struct {
		a *pair
		s string
	}
	one := &pair{s: "123"}
	for _, tc := range []struct {
		value any
		want  int
	}{
		{nil, 0},
		{"12345", 16 + 5},
		{[]string{"1", "2"}, 24 + 2*(16+1)},
		{make([]int32, 1, 3), 24 + 4},
		{map[string]string{"k": "value"}, 8 + 48 + 8 + 8*(16+16) + 1 + 5},
		{map[string]any{"k": "value"}, 8 + 48 + 8 + 8*(16+16) + 1 + 16 + 5},
		{map[string]any(nil), 8},
		{pair{one, ""}, 24 + 24 + 3},
		{pair{&pair{one, "1"}, "12"}, 24 + 2 + 24 + 1 + 24 + 3},
		{[]any{nil, 1}, 24 + 16 + 16 + 8},
		{metav1.Now(), 24},
	} {
		if got := Of(tc.value); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.value, got, tc.want)
		}
	}
}

// nested is the JSON whose decoded maps take the most memory for each byte.
func nested(lists int) string {
	deep := strings.Repeat(`{"":`, 244) + "0" + strings.Repeat("}", 244)
	return `{"l":[` + strings.TrimSuffix(strings.Repeat(deep+",", lists), ",") + `]}`
}

func many(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

// What Of says is compared with what Go has allocated.
func TestOfDecodedJSON(t *testing.T) {
	for name, content := range map[string]string{
		"nested maps":   nested(40),
		"empty maps":    `{"l":[` + strings.TrimSuffix(strings.Repeat("{},", 10_000), ",") + `]}`,
		"empty lists":   `{"l":[` + strings.TrimSuffix(strings.Repeat("[],", 10_000), ",") + `]}`,
		"numbers":       `{"l":[` + many(10_000, "%d.5") + `]}`,
		"strings":       `{"l":[` + many(10_000, `"%d-12345678901234567890"`) + `]}`,
		"large map":     `{"m":{` + many(10_000, `"%d":"1234567890"`) + `}}`,
		"maps of 9":     `{"l":[` + many(1_000, `{"%d":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}`) + `]}`,
		"string of 1MB": `{"s":"` + strings.Repeat("a", 1<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			const copies = 10
			decoded := make([]map[string]any, copies)
			before := allocated()
			for i := range decoded {
				if err := json.Unmarshal([]byte(content), &decoded[i]); err != nil {
					t.Fatal(err)
				}
			}
			is := int(allocated()-before) / copies
			got := Of(decoded[0])
			t.Logf("%d bytes of JSON take %d, estimated %d", len(content), is, got)
			// How far Go has grown a large map depends on its random seed.
			if got < is/2 || got > is*3/2 {
				t.Errorf("got %d, want %d", got, is)
			}
			runtime.KeepAlive(decoded)
		})
	}
}

func allocated() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// pod has what most pods have.
func pod() *corev1.Pod {
	container := corev1.Container{
		Name: "app", Image: "registry.example/app:v1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
		Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi"),
		}},
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/var/run/secrets"}},
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "app-5d9c7b8f6d-x2x4k", Namespace: "default", UID: "6a1b1f8e-0f7c-4a53-9b0d-1d2b2a1f6c9e", ResourceVersion: "123456",
			CreationTimestamp: metav1.Now(), Labels: map[string]string{"app": "app", "pod-template-hash": "5d9c7b8f6d"},
			Annotations:     map[string]string{"tenantry.io/tenant": "acme"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app-5d9c7b8f6d", UID: "1"}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update", APIVersion: "v1", Time: &metav1.Time{Time: time.Now()},
				FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 1000)}}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container, container}, Volumes: []corev1.Volume{{Name: "token"}}, NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: make([]corev1.PodCondition, 4),
			ContainerStatuses: make([]corev1.ContainerStatus, 2)},
	}
}

func BenchmarkOf(b *testing.B) {
	decode := func(content string) any {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(content), &object.Object); err != nil {
			b.Fatal(err)
		}
		return object
	}
	for _, bc := range []struct {
		name  string
		value any
	}{
		{"pod", pod()},
		{"config map of 1 MB", &corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("a", 1<<20)}}},
		{"98,000 maps", decode(nested(400))},
	} {
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				Of(bc.value)
			}
		})
	}
}
