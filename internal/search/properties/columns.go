package properties

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/jsonpath"

	"github.com/tenantry/tenantry/internal/search/query"
)

// What a definition may have read of its objects.
const (
	maxColumns = 16
	maxPath    = 256
	// maxValues is how many values a configured property has of an object. Columns have one, as printed.
	maxValues = 16
)

// Columns are the printer columns of a definition, by the version of its objects.
type Columns struct {
	group    string
	versions map[string][]column
}

// column is a property with the path of its value.
type column struct {
	property, typ string
	values        int
	path          *jsonpath.JSONPath
}

// NewColumns returns the columns of a definition. Those whose path costs too much are left out.
func NewColumns(d *apiextensionsv1.CustomResourceDefinition) *Columns {
	all := &Columns{group: d.Spec.Group, versions: map[string][]column{}}
	for i := range d.Spec.Versions {
		version := &d.Spec.Versions[i]
		for _, c := range version.AdditionalPrinterColumns {
			name := nameOf(c.Name)
			if name == "" || len(all.versions[version.Name]) == maxColumns {
				continue
			}
			path, err := parsePath(c.JSONPath)
			if err != nil {
				continue
			}
			all.versions[version.Name] = append(all.versions[version.Name], column{property: name, typ: c.Type, values: 1, path: path})
		}
	}
	return all
}

// of returns the columns of objects of a version, none for those of another group.
func (c *Columns) of(apiVersion string) []column {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if c == nil || err != nil || gv.Group != c.group {
		return nil
	}
	return c.versions[gv.Version]
}

var (
	errPath     = errors.New("it is no path such as .spec.issuer.name")
	errMetadata = errors.New("metadata is searched as it is, and annotations by --search-annotations alone")
)

// parsePath reads a path. It may have no part that looks at the same field more than once: tenants write paths.
func parsePath(text string) (*jsonpath.JSONPath, error) {
	if len(text) > maxPath || !strings.HasPrefix(text, ".") {
		return nil, errPath
	}
	parsed, err := jsonpath.Parse("path", "{"+text+"}")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPath, err)
	}
	if len(parsed.Root.Nodes) != 1 || !isLinear(parsed.Root) {
		return nil, fmt.Errorf("%w; it may have fields, indexes, [*] and filters", errPath)
	}
	switch first := firstField(parsed.Root); first {
	case "": // the whole object
		return nil, errPath
	case "metadata":
		return nil, errMetadata
	}
	path := jsonpath.New("path").AllowMissingKeys(true)
	return path, path.Parse("{" + text + "}")
}

// isLinear reports whether what a path takes grows with the object alone: it is read at each change of one, by a
// process of all tenants. The policy of spaces, which is about what somebody asks for, lets filters have paths of their
// own.
func isLinear(node jsonpath.Node) bool {
	switch node := node.(type) {
	case *jsonpath.ListNode:
		return !slices.ContainsFunc(node.Nodes, func(n jsonpath.Node) bool { return !isLinear(n) })
	case *jsonpath.FilterNode:
		return isOperand(node.Left) && isOperand(node.Right)
	case *jsonpath.FieldNode, *jsonpath.ArrayNode, *jsonpath.WildcardNode:
		return true
	default: // everything below, unions, and what is a program
		return false
	}
}

// isOperand reports whether a side of a filter is a field or a value.
func isOperand(list *jsonpath.ListNode) bool {
	return list == nil || !slices.ContainsFunc(list.Nodes, func(n jsonpath.Node) bool {
		switch n := n.(type) {
		case *jsonpath.ListNode:
			return !isOperand(n)
		case *jsonpath.FieldNode, *jsonpath.TextNode, *jsonpath.IntNode, *jsonpath.FloatNode, *jsonpath.BoolNode:
			return false
		default:
			return true
		}
	})
}

// firstField returns the field of an object that a path begins with, empty if it begins with no single one.
func firstField(node jsonpath.Node) string {
	switch node := node.(type) {
	case *jsonpath.FieldNode:
		return node.Value
	case *jsonpath.ListNode:
		if len(node.Nodes) > 0 {
			return firstField(node.Nodes[0])
		}
	}
	return ""
}

// columns adds the values of columns. Those that cannot be read are not there.
func (c *collection) columns(content map[string]any, columns []column) {
	for i := range columns {
		results, err := columns[i].path.FindResults(content)
		if err != nil || len(results) == 0 {
			continue
		}
		for _, result := range results[0][:min(len(results[0]), columns[i].values)] {
			if value, typ, ok := valueOf(result, columns[i].typ); ok {
				c.add(columns[i].property, value, typ)
			}
		}
	}
}

// valueOf returns a value as kubectl prints it in a column of a type, but for times, which it prints as how long
// ago they were.
func valueOf(result reflect.Value, typ string) (string, query.Type, bool) {
	if !result.IsValid() || !result.CanInterface() {
		return "", query.String, false
	}
	switch value := result.Interface().(type) {
	case string:
		if typ != "date" {
			return value, query.String, typ == "" || typ == "string"
		}
		t, err := time.Parse(time.RFC3339, value)
		return t.UTC().Format(time.RFC3339), query.Time, err == nil
	case bool:
		return strconv.FormatBool(value), query.String, typ != "date"
	case int64:
		return strconv.FormatInt(value, 10), query.Number, typ != "date"
	case float64:
		if typ == "integer" {
			return strconv.FormatInt(int64(value), 10), query.Number, true
		}
		return strconv.FormatFloat(value, 'f', -1, 64), query.Number, typ != "date"
	case nil:
		return "", query.String, false
	default:
		encoded, err := json.Marshal(value)
		return string(encoded), query.String, err == nil && (typ == "" || typ == "string")
	}
}

// Configured is a property that an administrator has configured for a resource.
type Configured struct {
	text     string
	resource schema.GroupResource
	column   column
}

// parseConfigured reads NAME=RESOURCE.GROUP:PATH, such as issuer=certificates.cert-manager.io:.spec.issuerRef.name.
func parseConfigured(text string) (Configured, error) {
	name, rest, named := strings.Cut(text, "=")
	resource, path, found := strings.Cut(rest, ":")
	if !named || !found || resource == "" {
		return Configured{}, fmt.Errorf("%q is none; write NAME=RESOURCE.GROUP:PATH, such as issuer=certificates.cert-manager.io:.spec.issuerRef.name", text)
	}
	c := Configured{text: text, resource: schema.ParseGroupResource(resource), column: column{property: name, values: maxValues}}
	if name == "" || nameOf(name) != name {
		return c, fmt.Errorf("property %q cannot have this name; use lower case letters, digits and -, and none of %s", name, strings.Join(reserved, ", "))
	}
	if c.resource == secrets {
		return c, fmt.Errorf("property %q: Secrets are searched by their metadata alone", name)
	}
	var err error
	if c.column.path, err = parsePath(path); err != nil {
		return c, fmt.Errorf("property %q: path %q: %w", name, path, err)
	}
	return c, nil
}

// List is a flag of configured properties, which may be given several times.
type List []Configured

// Set implements pflag.Value.
func (l *List) Set(text string) error {
	c, err := parseConfigured(text)
	if err == nil {
		*l = append(*l, c)
	}
	return err
}

// String implements pflag.Value.
func (l *List) String() string {
	texts := make([]string, len(*l))
	for i, c := range *l {
		texts[i] = c.text
	}
	return strings.Join(texts, ",")
}

// Type implements pflag.Value.
func (*List) Type() string { return "NAME=RESOURCE.GROUP:PATH" }
