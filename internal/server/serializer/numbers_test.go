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
	"k8s.io/client-go/kubernetes/scheme"
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
