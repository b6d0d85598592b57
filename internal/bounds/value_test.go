package bounds

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// entries returns a map of some entries.
func entries[V any](length int) map[string]V {
	m := map[string]V{}
	for i := range length {
		m[fmt.Sprint(i)] = *new(V)
	}
	return m
}

// nested returns lists in each other.
func nested(levels int) any {
	var v any
	for range levels {
		v = []any{v}
	}
	return v
}

// shared returns a list that has the same list again and again.
func shared(v any, length int) []any {
	list := make([]any, length)
	for i := range list {
		list[i] = v
	}
	return list
}

func TestValue(t *testing.T) {
	owned := func(count int) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: make([]metav1.OwnerReference, count)}
	}
	managed := func(fields string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Time: new(metav1.Now()), FieldsV1: metav1.NewFieldsV1(fields)}}}}
	}
	custom := func(content map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: content}
	}
	schemas := func(levels int) *apiextensionsv1.JSONSchemaProps {
		s := &apiextensionsv1.JSONSchemaProps{}
		for range levels {
			s = &apiextensionsv1.JSONSchemaProps{Not: s}
		}
		return s
	}
	type aliased map[any]any
	for name, tc := range map[string]struct {
		value   any
		message string // none: it is not refused
	}{
		"nothing":                     {nil, ""},
		"no object":                   {(*corev1.Pod)(nil), ""},
		"a list":                      {&corev1.Service{Spec: corev1.ServiceSpec{Ports: make([]corev1.ServicePort, 10_000)}}, ""},
		"a long list":                 {&corev1.Service{Spec: corev1.ServiceSpec{Ports: make([]corev1.ServicePort, 10_001)}}, "more than 10000 elements in one list"},
		"a long list in a list":       {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}, {Args: make([]string, 10_001)}}}}, "elements in one list"},
		"a long list behind pointers": {&corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{Sysctls: make([]corev1.Sysctl, 10_001)}}}, "elements in one list"},
		"data":                        {&corev1.Secret{Data: map[string][]byte{"k": make([]byte, 3<<20)}}, ""},
		"labels":                      {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: entries[string](20_000)}}, ""},
		"many labels":                 {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: entries[string](20_001)}}, "more than 20000 entries in one map"},
		"owners":                      {&corev1.Pod{ObjectMeta: owned(64)}, ""},
		"many owners":                 {&corev1.Pod{ObjectMeta: owned(65)}, "more than 64 ownerReferences"},
		"many owners in a template":   {&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: owned(65)}}}}, "ownerReferences"},
		"managed fields":              {managed(object(20_000)), ""},
		"many managed fields":         {managed(`{"f:a":` + object(20_001) + "}"), "entries in one map"},
		"an extension":                {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(object(20_000))}}, ""},
		"a large extension":           {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte(object(20_001))}}, "entries in one map"},
		"an extension in CBOR":        {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte("\xd9\xd9\xf7\xa0")}}, "CBOR"},
		"extensions below long names": {map[string]any{strings.Repeat("k", 8_000): []runtime.RawExtension{{Raw: []byte(list(1_100, "0"))}, {Raw: []byte(list(1_100, "0"))}}}, "names that lead to its fields"},
		"a large extension, decoded":  {&appsv1.ControllerRevision{Data: runtime.RawExtension{Object: &runtime.Unknown{Raw: []byte(object(20_001))}}}, "entries in one map"},
		"a default of a schema":       {&apiextensionsv1.JSONSchemaProps{Default: &apiextensionsv1.JSON{Raw: []byte(list(10_001, "0"))}}, "elements in one list"},
		"a certificate":               {&apiextensionsv1.WebhookClientConfig{CABundle: []byte(list(10_001, "0"))}, ""},
		"much text in YAML":           {map[any]any{1: strings.Repeat("x", 16<<20+1)}, "when it is written out"},
		"schemas":                     {schemas(250), ""},
		"schemas in each other":       {schemas(501), "more than 250 levels of lists and maps"},
		"a custom list":               {custom(map[string]any{"spec": map[string]any{"list": make([]any, 10_000)}}), ""},
		"a long custom list":          {custom(map[string]any{"spec": map[string]any{"list": make([]any, 10_001)}}), "elements in one list"},
		"a large custom map":          {custom(map[string]any{"spec": entries[any](20_001)}), "entries in one map"},
		"custom owners":               {custom(map[string]any{"metadata": map[string]any{"ownerReferences": make([]any, 64)}}), ""},
		"many custom owners":          {custom(map[string]any{"metadata": map[string]any{"ownerReferences": make([]any, 65)}}), "ownerReferences"},
		"a custom list of text":       {custom(map[string]any{"ownerReferences": "text", "list": []any{int64(1), 1.5, true, nil, "text"}}), ""},
		"a list in YAML":              {map[any]any{1: make([]any, 10_000)}, ""},
		"a long list in YAML":         {map[any]any{1: make([]any, 10_001)}, "elements in one list"},
		"many owners in YAML":         {map[any]any{"ownerReferences": make([]any, 65)}, "ownerReferences"},
		"other types of decoders":     {aliased{true: make([]string, 10_001)}, "elements in one list"},
		"nested":                      {nested(500), ""},
		"nested too deep":             {nested(501), "levels of lists and maps"},
		"a long name":                 {map[string]any{strings.Repeat("k", 8<<10): map[any]any{"": nil}}, ""},
		"a long path":                 {map[string]any{strings.Repeat("k", 8<<10): map[any]any{"k": nil}}, "more than 8192 bytes in the names that lead to one of its fields"},
		"a long path of a list":       {map[any]any{strings.Repeat("k", 8<<10-5): []any{nil}}, "names that lead to one of its fields"},
		"a long path of a map":        {&corev1.ConfigMap{Data: map[string]string{strings.Repeat("k", 8<<10+1): ""}}, "names that lead to one of its fields"},
		"long paths of a list":        {map[string]any{strings.Repeat("k", 2<<10-6): make([]any, 8191)}, ""},
		"too long paths of a list":    {map[string]any{strings.Repeat("k", 2<<10-6): make([]any, 8192)}, "more than 16777216 bytes in the names that lead to its fields"},
		"long paths of usual lists":   {[]any{map[string][]string{strings.Repeat("k", 2<<10-6): make([]string, 8192)}}, "names that lead to its fields"},
		"long names":                  {map[string]string{strings.Repeat("k", 5<<10): "", strings.Repeat("l", 5<<10): ""}, ""},
		"a time":                      {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Date(2200, 12, 31, 0, 0, 0, 0, time.UTC))}}, ""},
		"a late time":                 {&batchv1.Job{Status: batchv1.JobStatus{StartTime: new(metav1.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC))}}, "a time after the year 2200"},
		"a late time in a condition":  {&appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{LastUpdateTime: metav1.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}}}}, "a time after the year 2200"},
		"a late time of a lease":      {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(time.Unix(1<<55, 0)))}}, "a time after the year 2200"},
		"one text":                    {strings.Repeat("x", 16<<20), ""},
		"a longer text":               {strings.Repeat("x", 16<<20+1), "more than 16777216 bytes when it is written out"},
		"much text":                   {shared(strings.Repeat("x", 1<<10), 10_000), ""},
		"much text again and again":   {shared(strings.Repeat("x", 2<<10), 10_000), "when it is written out"},
		"lists again and again":       {shared(shared(shared(shared(nil, 9_999), 9_999), 9_999), 9_999), "a space takes no more"},
		"nothing again and again":     {shared(shared([]any{}, 9_999), 104), ""},
		"no more of nothing":          {shared(shared([]any{}, 9_999), 105), "when it is written out"},
		"keys again and again":        {shared(map[string]any{strings.Repeat("k", 1<<11): nil}, 9_999), "when it is written out"},
		"keys in YAML":                {shared(map[any]any{strings.Repeat("k", 1<<11): nil}, 9_999), "when it is written out"},
		"data again and again":        {shared(bytes.Repeat([]byte("x"), 1<<11), 9_999), "when it is written out"},
		"labels again and again":      {shared(map[string]string{"k": strings.Repeat("v", 1<<11)}, 9_999), "when it is written out"},
	} {
		t.Run(name, func(t *testing.T) { checkMessage(t, Value(tc.value), tc.message) })
	}
}

// BenchmarkValue looks at a custom resource and a Deployment of some kB, as each write does.
func BenchmarkValue(b *testing.B) {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now(), Labels: map[string]string{"a": "b", "c": "d"}}}
	for range 3 {
		deployment.Spec.Template.Spec.Containers = append(deployment.Spec.Template.Spec.Containers, corev1.Container{
			Name: "c", Args: []string{"a", "b", "c"}, Env: make([]corev1.EnvVar, 10), VolumeMounts: make([]corev1.VolumeMount, 5),
		})
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	if err != nil {
		b.Fatal(err)
	}
	for name, v := range map[string]any{"typed": deployment, "custom": &unstructured.Unstructured{Object: content}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := Value(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
