package expression

import (
	"math"
	"slices"
	"strings"

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
	for name := range env.Functions() {
		if !slices.Contains(cheap, name) && !strings.ContainsAny(name[:1], "_@!-") {
			ids = append(ids, overloadsOf(env, name)...)
		}
	}
	options := []interpreter.CostTrackerOption{
		interpreter.OverloadCostTracker(constructed, constructionCosts),
		interpreter.OverloadCostTracker(celoverloads.AddList, sumCosts),
	}
	for _, id := range ids {
		options = append(options, interpreter.OverloadCostTracker(id, costOf))
	}
	for _, id := range searches(env) {
		options = append(options, interpreter.OverloadCostTracker(id, searchCosts))
	}
	return cel.CostTrackerOptions(options...)
}

// cheap are functions of which upstream's cost is right, or that do not look into what they
// are given.
var cheap = []string{celoverloads.Size, celoverloads.Contains, celoverloads.StartsWith, celoverloads.EndsWith,
	celoverloads.Matches, "find", "findAll", "dyn", "type", "optional.of", "hasValue", "value", "or", "orValue"}

func overloadsOf(env *cel.Env, function string) (ids []string) {
	if declared, ok := env.Functions()[function]; ok {
		for _, o := range declared.OverloadDecls() {
			ids = append(ids, o.ID())
		}
	}
	return ids
}

// searches returns the overloads that search patterns.
func searches(env *cel.Env) []string {
	return slices.Concat(overloadsOf(env, celoverloads.Matches), overloadsOf(env, "find"), overloadsOf(env, "findAll"))
}

// perSearch is what a unit of cost buys of maxSearch: the largest search costs all that
// Kubernetes allows an expression.
const perSearch = 100

// compiling is how many bytes are searched in about the time in which a pattern is compiled, as one that is no constant
// is for each search.
const compiling = 25

// searchCosts is the cost of a search with a pattern that repeats its parts, which upstream
// takes for as many as are written; nil for others.
func searchCosts(args []ref.Val, _ ref.Val) *uint64 {
	pattern := text(args[1])
	if !strings.Contains(pattern, "{") {
		return nil
	}
	cost := uint64(max(length(args[0]), compiling)*instructionsOf(pattern)/perSearch + 1)
	return &cost
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
