package filters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxShown is the longest refused value that the error repeats, in bytes. Names of tenants
	// are not longer.
	maxShown = 63
	// maxPatchOperations is upstream's limit for a JSON patch, which refuses longer
	// ones.
	maxPatchOperations = 10_000
)

// stripper returns body without the tenant n, or an error if it names another. It returns a
// body that it cannot read as it is, and upstream refuses it. It may change body in place.
type stripper func(ctx context.Context, body []byte, n tenant.Name) ([]byte, error)

// mayName reports whether JSON or YAML can have the field, plain or escaped.
func mayName(body []byte) bool {
	return bytes.Contains(body, []byte("tenant")) || bytes.IndexByte(body, '\\') >= 0
}

// check returns an error unless value is allowed as metadata.tenant in the space of n.
func check(value any, n tenant.Name) error {
	if value == nil || value == "" || value == string(n) {
		return nil
	}
	named, ok := value.(string)
	if !ok || len(named) > maxShown { // it may be as long as the body
		return fmt.Errorf("metadata.tenant is not the name of a tenant, and the request acts in tenant %q; leave the field out", n)
	}
	return fmt.Errorf("metadata.tenant is %q but the request acts in tenant %q; leave the field out, or send the request to tenant %q",
		named, n, named)
}

func stripJSON(ctx context.Context, body []byte, n tenant.Name) ([]byte, error) {
	if !mayName(body) || !json.Valid(body) {
		return body, nil
	}
	return body, blank(ctx, body, n, "metadata", "tenant")
}

// blank overwrites all occurrences of the field at path in a JSON object with
// spaces. It parses the object once, and copies it once.
func blank(ctx context.Context, object []byte, n tenant.Name, path ...string) error {
	before := len(object) - len(bytes.TrimLeft(object, jsonSpace))
	return blankIn(ctx, object, gjson.Result{Type: gjson.JSON, Raw: string(object[before:]), Index: before}, n, path)
}

func blankIn(ctx context.Context, body []byte, object gjson.Result, n tenant.Name, path []string) (err error) {
	if !object.IsObject() {
		return nil
	}
	object.ForEach(func(key, value gjson.Result) bool {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case key.Str != path[0]:
		case len(path) > 1:
			err = blankIn(ctx, body, value, n, path[1:])
		default:
			if err = check(scalar(value), n); err == nil {
				blankMember(body, key.Index, value.Index+len(value.Raw))
			}
		}
		return err == nil
	})
	return err
}

// scalar returns a value, undecoded if it is an object or array.
func scalar(value gjson.Result) any {
	if value.Type == gjson.JSON {
		return struct{}{}
	}
	return value.Value()
}

// blankMember overwrites a member of an object and a comma: the one behind it or, for the
// last member, the one before it. Only for the last it scans back over blanks.
func blankMember(body []byte, from, to int) {
	for i := from; i < to; i++ {
		body[i] = ' '
	}
	behind := to + len(body[to:]) - len(bytes.TrimLeft(body[to:], jsonSpace))
	if body[behind] == ',' {
		body[behind] = ' '
		return
	}
	before := len(bytes.TrimRight(body[:from], jsonSpace)) - 1
	if body[before] == ',' {
		body[before] = ' '
	}
}

const jsonSpace = " \t\r\n"

// stripJSONPatch removes the operations of an RFC 6902 patch on metadata.tenant,
// and the field from the values of other operations.
func stripJSONPatch(ctx context.Context, body []byte, n tenant.Name) ([]byte, error) {
	if !mayName(body) {
		return body, checkPatchWork(bytes.Count(body, []byte(`"op"`)), len(body))
	}
	var operations []map[string]json.RawMessage
	if err := json.Unmarshal(body, &operations); err != nil || len(operations) > maxPatchOperations {
		return body, nil
	}
	if err := checkPatchWork(len(operations), len(body)); err != nil {
		return nil, err
	}
	remaining := operations[:0]
	for _, operation := range operations {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		keep, err := stripOperation(ctx, operation, n)
		if err != nil {
			return nil, err
		}
		if keep {
			remaining = append(remaining, operation)
		}
	}
	return json.Marshal(remaining)
}

// checkPatchWork refuses JSON patches that upstream would apply for minutes.
func checkPatchWork(operations, size int) error {
	if operations*size <= bounds.MaxPatchWork {
		return nil
	}
	return fmt.Errorf("a JSON patch of %d operations and %d bytes takes too long, their product may be %d; send it in parts",
		operations, size, bounds.MaxPatchWork)
}

// stripOperation removes the field from the value of an operation, and reports whether
// the operation changes anything else.
func stripOperation(ctx context.Context, operation map[string]json.RawMessage, n tenant.Name) (keep bool, err error) {
	if text(operation["from"]) == "/metadata/tenant" {
		return false, fmt.Errorf("a JSON patch cannot copy or move metadata.tenant")
	}
	value := operation["value"]
	switch text(operation["path"]) {
	case "/metadata/tenant":
		return false, check(scalar(gjson.ParseBytes(value)), n)
	case "/metadata":
		return true, blank(ctx, value, n, "tenant")
	case "":
		return true, blank(ctx, value, n, "metadata", "tenant")
	default:
		return true, nil
	}
}

// text returns a JSON string, empty for anything else.
func text(value json.RawMessage) string {
	var s string
	if len(value) == 0 || json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}
