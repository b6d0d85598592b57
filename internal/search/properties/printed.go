package properties

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"

	"github.com/tenantry/tenantry/internal/search/query"
)

// printer makes the tables that kubectl prints.
var printer = sync.OnceValue(func() printers.TableGenerator {
	return printers.NewTableGenerator().With(printersinternal.AddHandlers)
})

// relative are the columns with how long ago something was, which is true when it is printed alone, and images
// one that is a property of its own.
var relative = []string{
	"age", "completed", "duration", "first-seen", "images", "last-schedule", "last-seen", "timeadded",
	"responder-expected-finish", "responder-heartbeat", "responder-status",
}

// numbers are columns of text that have numbers, as far as they have.
var numbers = []string{"capacity", "count", "maxpods", "min-available", "max-unavailable", "restarts"}

// printed adds what kubectl prints of a built-in object.
func (c *collection) printed(obj runtime.Object) {
	// The result may share memory with obj, which printers do not change, but is not obj: the kind of what is its own
	// internal version is taken away.
	internal, err := legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		return // it is of another scheme, and nothing prints it
	}
	table, err := printer().GenerateTable(internal, printers.GenerateOptions{Wide: true})
	if err != nil || len(table.Rows) != 1 {
		return
	}
	for i, cell := range table.Rows[0].Cells {
		if i < len(table.ColumnDefinitions) {
			c.cell(&table.ColumnDefinitions[i], cell)
		}
	}
}

func (c *collection) cell(column *metav1.TableColumnDefinition, cell any) {
	name := nameOf(column.Name)
	if cell == nil || slices.Contains(relative, name) {
		return
	}
	value, typ := fmt.Sprint(cell), query.String
	switch cell.(type) {
	case int, int32, int64, float64:
		typ = query.Number
	case string:
		if slices.Contains(numbers, name) {
			value, _, _ = strings.Cut(value, " ") // "3 (5m ago)"
			typ = query.Number
		}
	}
	c.add(name, value, typ)
}
