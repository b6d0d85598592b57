package filters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"
	goyamlv3 "sigs.k8s.io/yaml/goyaml.v3"

	"github.com/tenantry/tenantry/internal/server/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

// stripYAML removes the field from YAML and refuses YAML that aliases inflate. Upstream
// converts YAML to JSON, and its parser limits the number of nodes that aliases repeat but not
// their length: 3 MB can become gigabytes.
func stripYAML(ctx context.Context, body []byte, n tenant.Name) ([]byte, error) {
	if json.Valid(body) { // JSON is YAML, too
		return stripJSON(ctx, body, n)
	}
	named, aliased := mayName(body) || isUTF16(body), bytes.IndexByte(body, '*') >= 0
	if !named && !aliased && len(body) < bounds.MinBody {
		return body, nil
	}
	var object any
	if goyaml.Unmarshal(body, &object) != nil { // as upstream reads it
		return body, nil
	}
	if err := checkKeys(body); err != nil {
		return nil, err
	}
	if left := lengthWithout(object, maxExpanded); left < 0 {
		return nil, fmt.Errorf("the YAML has more than %d bytes with its aliases written out; use fewer aliases", maxExpanded)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if metadata, ok := member(object, "metadata"); !named || !ok {
		return body, nil
	} else if _, ok := member(metadata, "tenant"); !ok {
		return body, nil
	}
	asJSON, err := yaml.YAMLToJSON(body)
	if err != nil {
		return body, nil
	}
	return stripJSON(ctx, asJSON, n) // upstream reads JSON as YAML
}

// maxRepeated is how many keys of a map may be there before: upstream has an error for each,
// which shows the key. For JSON it has as many errors at most.
const maxRepeated = 100

// checkKeys refuses maps with many keys that are there before, which a decoded map does not
// show, and keys that are aliases: what they stand for may be long.
func checkKeys(body []byte) error {
	var document goyamlv3.Node
	if err := goyamlv3.Unmarshal(body, &document); err != nil {
		return fmt.Errorf("a parser of YAML 1.2 cannot read the body: %w", err)
	}
	return checkNode(&document)
}

func checkNode(node *goyamlv3.Node) error {
	if node.Kind == goyamlv3.MappingNode {
		known, repeated := make(map[string]struct{}, len(node.Content)/2), 0
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			if key.Kind != goyamlv3.ScalarNode {
				return fmt.Errorf("line %d of the YAML has a key that is no text; write it out", key.Line)
			}
			if _, ok := known[key.Value]; ok {
				repeated++
			}
			if known[key.Value] = struct{}{}; repeated > maxRepeated {
				return fmt.Errorf("the YAML has a map with more than %d keys that are in it before; write each once", maxRepeated)
			}
		}
	}
	for _, child := range node.Content {
		if err := checkNode(child); err != nil {
			return err
		}
	}
	return nil
}

// maxExpanded is the maximum length of YAML with its aliases expanded, in bytes. Without
// aliases, escapes at most double the length of a body.
const maxExpanded = 2 * maxBody

// lengthWithout returns left minus the number of bytes of the texts in value. It ends when
// the result is negative.
func lengthWithout(value any, left int) int {
	switch value := value.(type) {
	case string:
		return left - len(value)
	case []any:
		for _, item := range value {
			if left = lengthWithout(item, left-1); left < 0 {
				break
			}
		}
	case map[any]any:
		for key, item := range value {
			if left = lengthWithout(item, lengthWithout(key, left-1)); left < 0 {
				break
			}
		}
	}
	return left
}

func member(object any, name string) (any, bool) {
	members, ok := object.(map[any]any)
	if !ok {
		return nil, false
	}
	value, ok := members[name]
	return value, ok
}

// isUTF16 reports whether YAML begins with a byte order mark of UTF-16, in which
// mayName finds no letters.
func isUTF16(body []byte) bool {
	return bytes.HasPrefix(body, []byte{0xfe, 0xff}) || bytes.HasPrefix(body, []byte{0xff, 0xfe})
}
