package filters

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/bounds"
)

var pods = corev1.SchemeGroupVersion.WithKind("Pod")

// checkNumbers refuses patches with numbers that take long to decode or compare: upstream
// decodes a strategic merge patch and what is applied without a serializer.
func (f format) checkNumbers(ctx context.Context, patch []byte) error {
	if f.numbers == "" {
		return nil
	}
	found, err := bounds.Numbers(f.numbers, patch)
	if err == nil && found {
		err = checkPods(ctx, patch)
	}
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// checkPods checks the quantities in patches of pods, which upstream adds up to set defaults.
// Those of others are compared after admission, which checks them.
func checkPods(ctx context.Context, patch []byte) error {
	if info, ok := request.RequestInfoFrom(ctx); !ok || info.Resource != "pods" || info.APIGroup != "" {
		return nil
	}
	pod, _, err := scheme.Codecs.UniversalDeserializer().Decode(patch, &pods, nil)
	if err != nil { // with directives where there are quantities
		return fmt.Errorf("the patch has numbers with long exponents, and is not part of a Pod (%w); write them with fewer digits", err)
	}
	return bounds.Quantities(pod)
}
