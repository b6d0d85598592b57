package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/json"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
)

// What a conversion webhook makes of an object is not stored, and no quota counts it. But watch caches keep it, for
// each object and for their latest events, and one write is converted to each version that a webhook is for. So it does
// not take much more memory than what was stored. A version may have an object of some fields for a text of another.
const (
	// byteFactor is how many bytes there may be for each in what the webhook is asked, and objectBytes how many more
	// for each object.
	byteFactor, objectBytes = 8, 4 << 10
	// memoryFactor and objectMemory are the same of memory. There may be byteMemory more for each byte.
	memoryFactor, objectMemory, byteMemory = 2, 16 << 10, 24
	// maxTextBytes is for how many bytes of each object that holds: large ones do not become much larger.
	maxTextBytes = 64 << 10
	// grownPerSecond is how many bytes of memory beyond memoryFactor a tenant's webhooks make in a second, and
	// grownAtOnce how many before that holds: those of a few hundred large objects that become lists of objects.
	grownPerSecond, grownAtOnce = 1 << 20, 256 << 20
	// valueMemory is what a value takes in memory, in bytes, and mapMemory and emptyMemory what a map does besides,
	// with something in it and without.
	valueMemory, mapMemory, emptyMemory = 32, 320, 48
)

// conversion is what a webhook is asked to convert, and what that takes in memory.
type conversion struct{ objects, bytes, memory int }

// memoryOf returns about how much memory JSON takes when it is decoded.
func memoryOf(data []byte) int {
	values, maps, empty := bounds.Count(data)
	return len(data) + valueMemory*values + mapMemory*(maps-empty) + emptyMemory*empty
}

// conversionOf returns what a request asks a webhook to convert, nil if it asks for
// something else.
func conversionOf(req *http.Request) (*conversion, error) {
	review, err := reviewOf(req)
	if err != nil || gjson.GetBytes(review, "kind").String() != "ConversionReview" {
		return nil, err
	}
	return &conversion{int(gjson.GetBytes(review, "request.objects.#").Int()), len(review), memoryOf(review)}, nil
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

// grownBytes are what tenants' webhooks have made of late.
var grownBytes = ratelimit.Limits[tenant.Name]{PerSecond: grownPerSecond, AtOnce: grownAtOnce}

// grows refuses what takes much more than it did, if there is much of it: caches have what is written before a webhook
// makes more of it, and are filled with what it makes when they are made anew, as at each start of the server.
func (a answers) grows(bytes int) error {
	if bytes <= 0 || (a.exceeded == nil || !a.exceeded(a.of)) && grownBytes.Take(time.Now(), a.of, bytes) == 0 {
		return nil
	}
	return fmt.Errorf("the webhooks of the space make what takes %d bytes more of memory than twice what objects take, and have made much more of others: "+
		"delete some, or convert to a version with fewer fields", bytes)
}

// check refuses an answer that is not too long, but has too many values. It reads JSON by the code that upstream reads
// it with, in which a field may be there twice. It returns how many bytes more than memoryFactor the answer takes.
func (c *conversion) check(answer []byte) (grown int, err error) {
	takes := memoryOf(answer)
	most := memoryFactor*c.memory + byteMemory*min(c.bytes, (1+c.objects)*maxTextBytes) + (1+c.objects)*objectMemory
	if takes > most {
		return 0, fmt.Errorf("the webhook makes what takes %d bytes of memory of %d objects that take %d: %d are allowed; "+
			"convert to a version with fewer fields, or make several objects of it", takes, c.objects, c.memory, most)
	}
	var review apiextensionsv1.ConversionReview // of which v1beta1 is no different
	if err := json.UnmarshalCaseSensitivePreserveInts(answer, &review); err != nil || review.Response == nil {
		return 0, nil // upstream refuses it
	}
	if err := checkResult(review.Response.Result.Size()); err != nil {
		return 0, err
	}
	for i := range review.Response.ConvertedObjects {
		if err := bounds.JSON(review.Response.ConvertedObjects[i].Raw); err != nil {
			return 0, fmt.Errorf("the webhook converts to an object that is not taken: %w", err)
		}
	}
	return takes - memoryFactor*c.memory, nil
}
