package filters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/yamltext"
)

// stripYAML removes the field from YAML and refuses YAML that aliases inflate. Upstream
// converts YAML to JSON, and its parser limits the number of nodes that aliases repeat but not
// their length: 3 MB can become gigabytes. It looks for repeated keys, too, and has an error with
// the whole key for each, also for those that it has merged itself. So it gets YAML with aliases as
// the JSON that it makes of it, in which no key is repeated.
func stripYAML(ctx context.Context, body []byte, n tenant.Name) ([]byte, error) {
	if json.Valid(body) { // JSON is YAML, too
		return stripJSON(ctx, body, n)
	}
	if yamltext.HasManyDirectives(body) {
		return nil, fmt.Errorf("the YAML has more than %d lines that begin with %%; leave directives out", yamltext.MaxDirectives)
	}
	named, aliased := mayName(body), mayAlias(body)
	if yamltext.IsUTF16(body) { // in which no letters are found
		named, aliased = true, true
	}
	if !named && !aliased {
		return body, nil
	}
	if aliased {
		if err := checkAliases(body); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	asJSON, err := yaml.YAMLToJSON(body)
	if err != nil || !aliased && !gjson.GetBytes(asJSON, "metadata.tenant").Exists() {
		return body, nil
	}
	return stripJSON(ctx, asJSON, n) // upstream reads JSON as YAML
}

// mayAlias reports whether YAML may have aliases, each of which needs an anchor.
func mayAlias(body []byte) bool {
	return bytes.IndexByte(body, '*') >= 0 && bytes.IndexByte(body, '&') >= 0
}

// maxExpanded is the maximum length of YAML with its aliases expanded, in bytes. Without
// aliases, escapes at most double the length of a body.
const maxExpanded = 2 * maxBody

// checkAliases refuses YAML that is too long with its aliases expanded, before it is decoded.
func checkAliases(body []byte) error {
	var document goyaml.Node
	if err := goyaml.Unmarshal(body, &document); err != nil {
		return fmt.Errorf("a parser of YAML 1.2 cannot read the body: %w", err)
	}
	length, err := expansion{}.of(&document)
	if err == nil && length > maxExpanded {
		err = fmt.Errorf("the YAML has more than %d bytes with its aliases written out; use fewer aliases", maxExpanded)
	}
	return err
}

// expansion is how many bytes there are in nodes with their aliases expanded. It has the
// nodes with anchors.
type expansion map[*goyaml.Node]int

const expanding = -1

func (e expansion) of(node *goyaml.Node) (length int, err error) {
	if node.Kind == goyaml.AliasNode {
		node = node.Alias
	}
	if length, known := e[node]; length == expanding {
		return 0, errors.New("the YAML has an alias in what it stands for; write it out")
	} else if known {
		return length, nil
	}
	if node.Anchor != "" {
		e[node] = expanding
	}
	length = len(node.Value) + 1
	for _, child := range node.Content {
		of, err := e.of(child)
		if err != nil {
			return 0, err
		}
		length = min(length+of, maxExpanded+1)
	}
	if node.Anchor != "" {
		e[node] = length
	}
	return length, nil
}
