package flowcontrol

import (
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/utils/ptr"
)

// name is that of the FlowSchema and of the priority level of all tenants.
const name = "tenants"

// Register adds the configuration of tenants to that which upstream creates at
// the start, and keeps current unless an administrator takes it over with the
// annotation apf.kubernetes.io/autoupdate-spec: "false".
var Register = sync.OnceFunc(func() {
	bootstrap.SuggestedPriorityLevelConfigurations = append(bootstrap.SuggestedPriorityLevelConfigurations, priorityLevel())
	bootstrap.SuggestedFlowSchemas = append(bootstrap.SuggestedFlowSchemas, flowSchema())
})

func autoUpdated() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Annotations: map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"}}
}

func priorityLevel() *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: autoUpdated(),
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: ptr.To[int32](100),
				LendablePercent:          ptr.To[int32](50),
				LimitResponse: flowcontrolv1.LimitResponse{
					Type: flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{
						// A busy tenant fills all queues of its hand and gets the
						// share of each, so the hand is as small as it can be while a
						// quiet tenant still finds a queue that no busy one fills.
						Queues:           256,
						HandSize:         2,
						QueueLengthLimit: 100,
					},
				},
			},
		},
	}
}

func flowSchema() *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: autoUpdated(),
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         9500, // after what an administrator adds, before global-default
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{
					Kind:  flowcontrolv1.SubjectKindGroup,
					Group: &flowcontrolv1.GroupSubject{Name: TenantsGroup},
				}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true,
				}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		},
	}
}
