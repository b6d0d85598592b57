package spaces

import (
	"encoding/json"
	"fmt"
	"strings"
)

// rewritePatch rewrites the values of a JSON patch (RFC 6902).
func (r *rewriter) rewritePatch(patch []byte) ([]byte, error) {
	var operations []map[string]json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil {
		return nil, fmt.Errorf("decoding the patch: %w", err)
	}
	for _, operation := range operations {
		var pointer string
		if err := json.Unmarshal(operation["path"], &pointer); err != nil {
			return nil, fmt.Errorf("decoding the path of an operation: %w", err)
		}
		p := objectRules.at(pointer)
		if p == nil || operation["value"] == nil {
			continue
		}
		value, err := r.rewrite(operation["value"], p)
		if err != nil {
			return nil, err
		}
		operation["value"] = value
	}
	return json.Marshal(operations)
}

// at returns the rules of the place to which a JSON pointer (RFC 6901) below p leads.
func (p *pathRules) at(pointer string) *pathRules {
	for segment := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch {
		case p == nil || pointer == "":
			return p
		case p.elements != nil:
			p = p.elements
		default:
			p = p.fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)]
		}
	}
	return p
}
