package egress

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"

	"github.com/tenantry/tenantry/internal/bounds"
)

var errTooLong = errors.New("the webhook answers with a patch of too many operations, for its size and that of the object")

// checkReview returns an admission review as it is taken: with a short status, which upstream logs for each webhook. It
// refuses one that says too much in audit annotations, or has a patch that is not taken. It reads JSON by the code that
// upstream reads it with, in which a field may be there twice.
func checkReview(req *http.Request, answer []byte) ([]byte, error) {
	var review admissionv1.AdmissionReview // of which v1beta1 is no different
	if err := json.UnmarshalCaseSensitivePreserveInts(answer, &review); err != nil || review.Response == nil {
		return answer, nil // upstream refuses it
	}
	said := 0
	for key, value := range review.Response.AuditAnnotations {
		said += len(key) + len(value)
	}
	if err := checkResult(said); err != nil {
		return nil, err
	}
	if err := checkPatch(req, review.Response.Patch); err != nil {
		return nil, err
	}
	if review.Response.Result.Size() <= maxText {
		return answer, nil
	}
	return shortened(&review)
}

// checkResult refuses what a webhook says beside its answer if it has too many bytes.
func checkResult(bytes int) error {
	if bytes > maxResult {
		return fmt.Errorf("the webhook answers with a status and audit annotations of %d bytes in all, and %d are allowed: shorten its messages", bytes, maxResult)
	}
	return nil
}

// checkPatch refuses a patch that takes long to apply, or makes an object that takes long to
// decode or to compare. Errors of the patch itself are left to upstream: it has no operations here.
func checkPatch(req *http.Request, patch []byte) error {
	operations, _ := jsonpatch.DecodePatch(patch)
	if int64(len(operations))*(int64(len(patch))+max(0, req.ContentLength)) > bounds.MaxPatchWork {
		return errTooLong
	}
	if !bounds.HasNumbers(patch) && !slices.ContainsFunc(operations, copies) {
		return nil
	}
	if err := checkPatched(req, operations); err != nil {
		return fmt.Errorf("the webhook answers with a patch that is not taken: %w", err)
	}
	return nil
}

// copies reports whether an operation takes a value from elsewhere in the object.
func copies(operation jsonpatch.Operation) bool {
	return operation.Kind() == "copy" || operation.Kind() == "move"
}

// checkPatched checks the quantities of the object that a patch makes. Objects of kinds that
// are not built in have none, and what cannot be applied or decoded, which upstream refuses, becomes none.
func checkPatched(req *http.Request, operations jsonpatch.Patch) error {
	review, err := reviewOf(req)
	if err != nil {
		return err
	}
	patched, _ := operations.Apply([]byte(gjson.GetBytes(review, "request.object").Raw))
	if kind, err := serializer.DefaultMetaFactory.Interpret(patched); err != nil || !scheme.Scheme.Recognizes(*kind) {
		return nil
	}
	if _, err := bounds.Numbers(runtime.ContentTypeJSON, patched); err != nil {
		return err
	}
	object, _, _ := scheme.Codecs.UniversalDeserializer().Decode(patched, nil, nil)
	return bounds.Quantities(object)
}
