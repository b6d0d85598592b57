package kubecontrollers

import (
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakescale "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestScales checks that selectors which the autoscaler would parse and keep are short.
func TestScales(t *testing.T) {
	for name, tc := range map[string]struct {
		selector string
		refused  bool
	}{
		"none":    {"", false},
		"usual":   {"app=web,tier in (a,b)", false},
		"longest": {strings.Repeat("!a,", maxSelectorTerms-1) + "!a", false},
		"long":    {strings.Repeat("!a,", maxSelectorTerms) + "!a", true},
	} {
		t.Run(name, func(t *testing.T) {
			client := &fakescale.FakeScaleClient{}
			client.AddReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: tc.selector}}, nil
			})
			_, err := boundedScales{client}.Scales("acme|ns").Get(t.Context(), schema.GroupResource{Resource: "widgets"}, "w", metav1.GetOptions{})
			if (err != nil) != tc.refused {
				t.Errorf("got error %v", err)
			}
		})
	}
}
