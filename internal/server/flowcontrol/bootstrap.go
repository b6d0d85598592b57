package flowcontrol

import (
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/utils/ptr"
)

const (
	// tenantsName is the name of the FlowSchema and the priority level of tenants, and
	// largeName of those of their large reads.
	tenantsName = "tenants"
	largeName   = "tenants-large"
)

// refusedSchema and refusedLevel classify requests that are refused before upstream's
// dispatcher.
var (
	refusedSchema = &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: tenantsName}}
	refusedLevel  = &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: tenantsName}}
)

// Register adds the configuration of tenants to the one that upstream creates at the start.
// Upstream updates it unless an administrator sets the annotation
// apf.kubernetes.io/autoupdate-spec: "false".
var Register = sync.OnceFunc(func() {
	bootstrap.SuggestedPriorityLevelConfigurations = append(bootstrap.SuggestedPriorityLevelConfigurations,
		priorityLevel(tenantsName, 100, 50, nil),
		// Few at a time for all tenants, without seats of other levels.
		priorityLevel(largeName, 5, 0, ptr.To[int32](0)))
	bootstrap.SuggestedFlowSchemas = append(bootstrap.SuggestedFlowSchemas,
		// After an administrator's, before global-default.
		flowSchema(largeName, 9400, largeGroup),
		flowSchema(tenantsName, 9500, tenantsGroup))
})

func autoUpdated(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

func priorityLevel(name string, shares, lendable int32, borrowing *int32) *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: autoUpdated(name),
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To(shares),
				LendablePercent:          ptr.To(lendable),
				BorrowingLimitPercent:    borrowing,
				LimitResponse: flowcontrolv1.LimitResponse{
					Type: flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{
						// A busy tenant fills all queues of its hand and gets the
						// share of each. The hand is as small as possible while an
						// idle tenant still finds a queue that no busy one fills.
						Queues:           256,
						HandSize:         2,
						QueueLengthLimit: 100,
					},
				},
			},
		},
	}
}

func flowSchema(name string, precedence int32, group string) *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: autoUpdated(name),
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         precedence,
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{
					Kind:  flowcontrolv1.SubjectKindGroup,
					Group: &flowcontrolv1.GroupSubject{Name: group},
				}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true,
				}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		},
	}
}
