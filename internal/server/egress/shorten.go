package egress

import (
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/text"
)

// shortened returns an answer without most of a long status. What a webhook refuses stays refused, whatever its
// failurePolicy.
func shortened(review *admissionv1.AdmissionReview) ([]byte, error) {
	s := review.Response.Result
	short := &metav1.Status{Status: s.Status, Code: s.Code, Message: "(cut) " + text.Cut(s.Message, maxText/2)}
	if len(s.Reason) <= maxText/4 {
		short.Reason = s.Reason
	}
	if s.Details != nil {
		short.Details = &metav1.StatusDetails{RetryAfterSeconds: s.Details.RetryAfterSeconds}
	}
	review.Response.Result = short
	return json.Marshal(review)
}
