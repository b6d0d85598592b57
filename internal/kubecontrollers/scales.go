package kubecontrollers

import (
	"context"
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/scale"
)

// maxSelectorTerms is how many labels and values the selector of a scale may have: those of a selector of a built-in
// kind together. It is a text, by a path that a definition names, so that nothing has checked it. The autoscaler parses
// and keeps one for each HorizontalPodAutoscaler.
const maxSelectorTerms = 132

// boundedScales refuses scales whose selectors are long.
type boundedScales struct{ scale.ScalesGetter }

// Scales implements scale.ScalesGetter.
func (s boundedScales) Scales(namespace string) scale.ScaleInterface {
	return boundedScale{s.ScalesGetter.Scales(namespace)}
}

type boundedScale struct{ scale.ScaleInterface }

// Get implements scale.ScaleInterface.
func (s boundedScale) Get(ctx context.Context, resource schema.GroupResource, name string, opts metav1.GetOptions) (*autoscalingv1.Scale, error) {
	found, err := s.ScaleInterface.Get(ctx, resource, name, opts)
	if err != nil {
		return nil, err
	}
	if terms := strings.Count(found.Status.Selector, ",") + 1; terms > maxSelectorTerms {
		return nil, fmt.Errorf("the selector of the scale of %s %q has %d labels and values, and may have %d", resource, name, terms, maxSelectorTerms)
	}
	return found, nil
}
