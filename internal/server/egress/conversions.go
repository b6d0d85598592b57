package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/tenantry/tenantry/internal/server/bounds"
)

// What a conversion webhook makes of an object is not stored, and no quota counts it. But watch
// caches keep it, for each object and for their latest events. So it is not much larger than
// what was stored.
const (
	// objectGrowth and valueGrowth are how many bytes and values each object may get beside
	// those that growth allows.
	objectGrowth = 4 << 10
	valueGrowth  = 256
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
	return int64(growth*c.bytes + (1+c.objects)*objectGrowth)
}

// check refuses an answer that is not too long, but has too many values.
func (c *conversion) check(answer []byte) error {
	values, _ := bounds.Count(answer)
	if most := growth*c.values + (1+c.objects)*valueGrowth; values > most {
		return fmt.Errorf("the webhook makes more than %d values of %d in %d objects: %d for each and %d for each object are allowed",
			most, c.values, c.objects, growth, valueGrowth)
	}
	var err error
	gjson.GetBytes(answer, "response.convertedObjects").ForEach(func(_, object gjson.Result) bool {
		err = bounds.JSON([]byte(object.Raw))
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("the webhook converts to an object that is not taken: %w", err)
	}
	return nil
}
