package spacepolicy

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
)

// The limits of printer columns. Each can show a whole object, in the table that kubectl asks
// for.
const (
	maxColumns     = 64
	maxSameColumns = 4
	maxColumnPath  = 512
)

// checkColumns refuses columns that show more than an object has, or look for it in more
// time than it takes to read.
func checkColumns(columns []apiextensionsv1.CustomResourceColumnDefinition, path *field.Path) error {
	if n := len(columns); n > maxColumns {
		return fmt.Errorf("%s: these are %d columns, and a space takes definitions with at most %d", path, n, maxColumns)
	}
	steps := make([][]jsonpath.Node, len(columns))
	for i, column := range columns {
		at := path.Index(i).Child("jsonPath")
		if n := len(column.JSONPath); n > maxColumnPath {
			return fmt.Errorf("%s: it has %d bytes, and may have %d in a space", at, n, maxColumnPath)
		}
		parsed, err := jsonpath.Parse("", "{"+column.JSONPath+"}")
		if err != nil {
			continue // which upstream refuses
		}
		if len(parsed.Root.Nodes) != 1 || !isPath(parsed.Root) {
			return fmt.Errorf("%s: in a space it is one path of fields, indices, filters and wildcards; leave out recursive descent (..), unions and ranges", at)
		}
		steps[i] = slices.DeleteFunc(parsed.Root.Nodes[0].(*jsonpath.ListNode).Nodes, isNoStep)
	}
	return checkOverlap(steps, path)
}

// isNoStep reports whether a node stays where it is.
func isNoStep(node jsonpath.Node) bool {
	f, ok := node.(*jsonpath.FieldNode)
	return ok && f.Value == ""
}

// isPath reports whether there is nothing in a path that finds a value twice. Filters may compare more than those of
// search, which reads paths at each change of an object, and not when somebody asks for it.
func isPath(node jsonpath.Node) bool {
	switch node := node.(type) {
	case *jsonpath.ListNode:
		return !slices.ContainsFunc(node.Nodes, func(n jsonpath.Node) bool { return !isPath(n) })
	case *jsonpath.FilterNode:
		_, text := onlyNode(node.Right).(*jsonpath.TextNode)
		return isPath(node.Left) && (text || isPath(node.Right))
	case *jsonpath.RecursiveNode, *jsonpath.UnionNode, *jsonpath.IdentifierNode, *jsonpath.TextNode:
		return false
	default:
		return true
	}
}

// checkOverlap refuses columns of which too many may show the same value.
func checkOverlap(columns [][]jsonpath.Node, path *field.Path) error {
	for i, column := range columns {
		n := 0
		for _, other := range columns {
			if overlap(column, other) {
				n++
			}
		}
		if n > maxSameColumns {
			return fmt.Errorf("%s: %d columns may show the same values as this one, or parts of them; a space takes definitions with at most %d such columns",
				path.Index(i).Child("jsonPath"), n, maxSameColumns)
		}
	}
	return nil
}

// overlap reports whether what one path finds may be what the other finds, or in it.
func overlap(a, b []jsonpath.Node) bool {
	for i := range min(len(a), len(b)) {
		if apart(a[i], b[i]) {
			return false
		}
	}
	return true
}

// apart reports whether two steps of paths lead to different values for sure: other fields,
// or elements that have different values in the same field.
func apart(a, b jsonpath.Node) bool {
	switch a := a.(type) {
	case *jsonpath.FieldNode:
		b, ok := b.(*jsonpath.FieldNode)
		return ok && a.Value != b.Value
	case *jsonpath.FilterNode:
		b, ok := b.(*jsonpath.FilterNode)
		if !ok {
			return false
		}
		field, value := comparison(a)
		other, otherValue := comparison(b)
		return field != "" && field == other && value != otherValue
	default:
		return false
	}
}

// comparison returns the field that a filter compares with a text, and the text. The field
// is empty for other filters.
func comparison(filter *jsonpath.FilterNode) (name, text string) {
	if filter.Operator != "==" {
		return "", ""
	}
	left, right := onlyNode(filter.Left), onlyNode(filter.Right)
	f, isField := left.(*jsonpath.FieldNode)
	t, isText := right.(*jsonpath.TextNode)
	if !isField || !isText {
		return "", ""
	}
	return f.Value, t.Text
}

// onlyNode returns the one node in lists of lists, nil if there are more.
func onlyNode(node jsonpath.Node) jsonpath.Node {
	for {
		list, ok := node.(*jsonpath.ListNode)
		if !ok {
			return node
		}
		if len(list.Nodes) != 1 {
			return nil
		}
		node = list.Nodes[0]
	}
}
