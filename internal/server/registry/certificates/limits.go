package certificates

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/tenantry/tenantry/internal/bounds"
)

// maxRequest is the maximum length of spec.request, in bytes of PEM.
const maxRequest = 64 << 10

// checkRequest returns an error if it is too much work to verify a request's signature. It
// leaves invalid requests to upstream's validation.
func checkRequest(request []byte) field.ErrorList {
	at := field.NewPath("spec", "request")
	if len(request) > maxRequest {
		return field.ErrorList{field.TooLong(at, "", maxRequest)}
	}
	parsed, err := certificates.ParseCSR(request)
	if err != nil {
		return nil
	}
	if err := bounds.PublicKey(parsed.PublicKey); err != nil {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())}
	}
	return nil
}
