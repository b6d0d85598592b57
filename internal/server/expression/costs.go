package expression

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celoverloads "github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

const (
	// constructed is the overload of constructors of objects.
	constructed = "object_constructed"
	// constructionCost is the least cost of an object that a policy makes.
	constructionCost = 1000
	// small is the size up to which upstream's cost of a call is right.
	small = 1000
)

// trackCosts makes calls with large values cost what these take. The overload of a call whose
// types are known only when it is made is "".
func trackCosts(env *cel.Env) cel.ProgramOption {
	ids := []string{"", celoverloads.Equals, celoverloads.NotEquals, celoverloads.InList, celoverloads.InMap}
	for name := range checks {
		if declared, ok := env.Functions()[name]; ok {
			for _, o := range declared.OverloadDecls() {
				ids = append(ids, o.ID())
			}
		}
	}
	options := []interpreter.CostTrackerOption{
		interpreter.OverloadCostTracker(constructed, constructionCosts),
		interpreter.OverloadCostTracker(celoverloads.AddList, sumCosts),
	}
	for _, id := range ids {
		options = append(options, interpreter.OverloadCostTracker(id, costOf))
	}
	return cel.CostTrackerOptions(options...)
}

// costOf returns the cost of a call with large values, nil for upstream's cost.
func costOf(args []ref.Val, result ref.Val) *uint64 {
	if _, loop := result.(traits.MutableLister); loop || isSmall(result) && isSmall(args...) {
		return nil
	}
	return costBy(sizeOf(args...) + sizeOf(result))
}

func isSmall(values ...ref.Val) bool {
	m := meter{left: small}
	for _, v := range values {
		if !m.value(v) {
			return false
		}
	}
	return true
}

func costBy(size int) *uint64 {
	cost := uint64(math.Ceil(float64(size) * common.StringTraversalCostFactor))
	return &cost
}

// sumCosts is the cost of the sum of two lists, which has all of their elements, nil for one
// that a loop adds to.
func sumCosts(_ []ref.Val, result ref.Val) *uint64 {
	if _, loop := result.(traits.MutableLister); loop || length(result)*perElement <= small {
		return nil
	}
	return costBy(length(result) * perElement)
}

func constructionCosts(_ []ref.Val, result ref.Val) *uint64 {
	cost := uint64(constructionCost)
	if large := costOf(nil, result); large != nil {
		cost += *large
	}
	return &cost
}
