package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/json"

	"github.com/tenantry/tenantry/internal/bounds"
)

// What a conversion webhook makes of an object is not stored, and no quota counts it. But watch
// caches keep it, for each object and for their latest events. So it is not much larger than
// what was stored. A version may have an object of some fields for a text of another.
const (
	// byteFactor and valueFactor are how many bytes and values there may be for each in what the
	// webhook is asked, and objectBytes and objectValues how many more for each object.
	byteFactor, objectBytes   = 8, 4 << 10
	valueFactor, objectValues = 16, 256
)

// conversion is what a webhook is asked to convert.
type conversion struct{ objects, bytes, values int }

// conversionOf returns what a request asks a webhook to convert, nil if it asks for
// something else.
func conversionOf(req *http.Request) (*conversion, error) {
	review, err := reviewOf(req)
	if err != nil || gjson.GetBytes(review, "kind").String() != "ConversionReview" {
		return nil, err
	}
	values, _ := bounds.Count(review)
	return &conversion{int(gjson.GetBytes(review, "request.objects.#").Int()), len(review), values}, nil
}

// reviewOf returns what a webhook is asked.
func reviewOf(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	if req.GetBody == nil {
		return nil, errors.New("what the webhook is asked is not known")
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}

// most returns how many bytes of an answer are read.
func (c *conversion) most() int64 {
	return int64(byteFactor*c.bytes + (1+c.objects)*objectBytes)
}

// check refuses an answer that is not too long, but has too many values. It reads JSON by the code
// that upstream reads it with, in which a field may be there twice.
func (c *conversion) check(answer []byte) error {
	values, _ := bounds.Count(answer)
	if most := valueFactor*c.values + (1+c.objects)*objectValues; values > most {
		return fmt.Errorf("the webhook makes more than %d values of %d in %d objects: %d of each, and %d more for each object, are allowed; "+
			"convert to a version with fewer fields, or make several objects of it", most, c.values, c.objects, valueFactor, objectValues)
	}
	var review apiextensionsv1.ConversionReview // of which v1beta1 is no different
	if err := json.UnmarshalCaseSensitivePreserveInts(answer, &review); err != nil || review.Response == nil {
		return nil // upstream refuses it
	}
	if err := checkResult(review.Response.Result.Size()); err != nil {
		return err
	}
	for i := range review.Response.ConvertedObjects {
		if err := bounds.JSON(review.Response.ConvertedObjects[i].Raw); err != nil {
			return fmt.Errorf("the webhook converts to an object that is not taken: %w", err)
		}
	}
	return nil
}
