package serializer

import (
	"bytes"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestLongNumbers checks that numbers that take hours to decode or compare are refused in
// each format, and that strings that look like them are not.
func TestLongNumbers(t *testing.T) {
	const placeholder = "111111111111111m"
	limited := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": apiresource.MustParse(placeholder)}},
	}}}}
	labeled := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"version": placeholder}}}
	scaled := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{"autoscaling.alpha.kubernetes.io/metrics": `[{"averageValue":"` + placeholder + `"}]`},
	}}
	wrapped := Wrap(scheme.Codecs, Links{})
	for name, tc := range map[string]struct {
		object  runtime.Object
		number  string // as long as the placeholder
		message string
	}{
		"one that takes long to read":    {limited, "11e-000001000000", "the number"},
		"one that takes long to compare": {limited, "1111111111e10000", "a quantity"},
		"a usual one":                    {limited, "1111111111111e-3", ""},
		"a label":                        {labeled, "1111111111e10000", ""},
		"a label that looks like one":    {labeled, "11e-000001000000", ""},
		"JSON in an annotation":          {scaled, "11e-000001000000", "the number"},
	} {
		for _, info := range wrapped.SupportedMediaTypes() {
			var data bytes.Buffer
			if err := wrapped.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(tc.object, &data); err != nil {
				if err := scheme.Codecs.EncoderForVersion(info.Serializer, autoscalingv1.SchemeGroupVersion).Encode(tc.object, &data); err != nil {
					t.Fatal(err)
				}
			}
			number := tc.number
			if info.MediaTypeSubType == "yaml" && tc.object != scaled {
				number = "'" + number + "'"
			}
			body := bytes.ReplaceAll(data.Bytes(), []byte(placeholder), []byte(number))
			if bytes.Equal(body, data.Bytes()) {
				t.Fatalf("%s is not in %q", placeholder, body)
			}
			for kind, decoder := range map[string]runtime.Decoder{"": info.Serializer, " strictly": info.StrictSerializer} {
				t.Run(name+" in "+info.MediaTypeSubType+kind, func(t *testing.T) {
					obj, _, err := decoder.Decode(body, nil, nil)
					if (err != nil) != (tc.message != "") || err != nil && (!strings.Contains(err.Error(), tc.message) || obj != nil) {
						t.Errorf("got %v, %v, want %q", obj, err, tc.message)
					}
				})
			}
		}
	}
	unknown := `{"apiVersion":"v1","kind":"Pod","unknown":1,"spec":{"overhead":{"cpu":"1e10000"}}}`
	for _, info := range wrapped.SupportedMediaTypes()[:1] {
		if _, _, err := info.StrictSerializer.Decode([]byte(unknown), nil, nil); err == nil || !strings.Contains(err.Error(), "a quantity") {
			t.Errorf("with unknown fields: %v", err)
		}
	}
}

// TestLimitsWithoutValue checks that a limit that is null, which would be decoded as 0, is refused in
// the quotas of Tenantry's own objects.
func TestLimitsWithoutValue(t *testing.T) {
	types := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	wrapped := Wrap(k8sserializer.NewCodecFactory(types), Links{})
	for name, tc := range map[string]struct{ body, message string }{
		"a Tenant":           {`{"apiVersion":"tenantry.io/v1alpha1","kind":"Tenant","spec":{"quota":{"services":5,"pods":null}}}`, "spec.quota[pods]: it has no value"},
		"a Tenant with 0":    {`{"apiVersion":"tenantry.io/v1alpha1","kind":"Tenant","spec":{"quota":{"pods":0}}}`, ""},
		"a Tenant of no one": {`{"apiVersion":"tenantry.io/v1alpha1","kind":"Tenant","spec":{"quota":null}}`, ""},
		"a KeystoneSync":     {`{"apiVersion":"tenantry.io/v1alpha1","kind":"KeystoneSync","spec":{"tenantTemplate":{"quota":{"pods":null}}}}`, "spec.tenantTemplate.quota[pods]"},
	} {
		for _, info := range wrapped.SupportedMediaTypes() {
			if info.Serializer == nil || info.MediaTypeSubType != "json" && info.MediaTypeSubType != "yaml" {
				continue // JSON is YAML
			}
			t.Run(name+" in "+info.MediaTypeSubType, func(t *testing.T) {
				_, _, err := info.Serializer.Decode([]byte(tc.body), nil, nil)
				if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
					t.Errorf("got %v, want %q", err, tc.message)
				}
			})
		}
	}
}
