package sync

import (
	"context"
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
)

// maxBudgets is how many budgets of a namespace of a space are on the host at most.
const maxBudgets = 200

// syncBudget creates or updates the host's PodDisruptionBudget for one of a space, so that draining a node of the host
// respects it.
func (s *syncer) syncBudget(ctx context.Context, i item) error {
	home, ready, err := s.readyHome(i.namespace)
	if err != nil || !ready {
		return err
	}
	there, err := s.hostCaches.budget(home.Host(), names.Copy(i.name))
	if err != nil {
		return err
	}
	client := s.host.PolicyV1().PodDisruptionBudgets(home.Host())
	budget, err := orNil(s.budgets.PodDisruptionBudgets(i.namespace.String()).Get(i.name))
	if err != nil {
		return err
	}
	if budget == nil {
		s.writeBudgets.drop(i)
		return remove(ctx, client, "budget", there, home, i.name)
	}
	if budget.Status.ObservedGeneration != budget.Generation {
		return nil // the space does not know yet how many are to be healthy
	}
	if there == nil && !s.room.has(kindIn{budgetItem, home.Host()}, maxBudgets, s.hostCaches.budgets.GetIndexer(), home.Host()) {
		return s.recordRefusal(ctx, budget, fmt.Sprintf("a namespace has at most %d budgets on the host cluster: delete others; until then who drains a node there does not ask this one", maxBudgets))
	}
	wanted := hostBudget(budget, home)
	if (there == nil || !isAsPut(there, wanted, slimBudget)) && s.postponeSmall(i, wanted, 0, 1) {
		return nil
	}
	err = put(ctx, client, "budget", there, wanted, slimBudget)
	if isRefused(err) {
		err = errors.Join(err, s.recordRefusal(ctx, budget, notTaken(err, home)))
	}
	return err
}

// hostBudget returns the host's budget: a number of healthy pods in place of a percentage, because the host does not
// have the workload from which to count.
func hostBudget(budget *policyv1.PodDisruptionBudget, home names.Namespace) *policyv1.PodDisruptionBudget {
	host := &policyv1.PodDisruptionBudget{
		ObjectMeta: home.Meta(names.Copy(budget.Name), budget),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(budget.Status.DesiredHealthy)), UnhealthyPodEvictionPolicy: budget.Spec.UnhealthyPodEvictionPolicy,
		},
	}
	if budget.Spec.Selector != nil { // none selects nothing
		host.Spec.Selector = network.PodSelector(budget.Spec.Selector)
	}
	return host
}

// budgetChanged has a budget of a space looked at, if there are pods for it.
func (s *syncer) budgetChanged(obj any) { s.enqueueIfOnHost(budgetItem, obj) }

// budgetUpdated is budgetChanged where both states are known: the number of pods that are healthy changes often, and is
// not on the host.
func (s *syncer) budgetUpdated(before, obj any) {
	b, budget := before.(*policyv1.PodDisruptionBudget), obj.(*policyv1.PodDisruptionBudget)
	if b.UID != budget.UID || b.Generation != budget.Generation || b.Status.ObservedGeneration != budget.Status.ObservedGeneration ||
		b.Status.DesiredHealthy != budget.Status.DesiredHealthy {
		s.budgetChanged(obj)
	}
}

func (s *syncer) hostBudgetChanged(obj any) { s.enqueueSource(budgetItem, obj) }

// enqueueBudgets has all budgets of a namespace of a space looked at.
func (s *syncer) enqueueBudgets(of tenant.Flat) {
	s.enqueueIn(budgetItem, s.informers.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer(), of)
}
