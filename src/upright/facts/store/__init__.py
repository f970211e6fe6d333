"""Records <-> one directory per deployment, written so that `kill -9` at any moment loses nothing.

HOME/deployments/NAME/  box.json model.json plan.json recipe.json deployment.json   records, each replaced atomically
                        evidence.jsonl  evidence.head  evidence.torn-N              appended, each line chained
                        engine.log  supervisor.log  key (0600)  report.html  processes
HOME/refused.json       the last `up` that was refused, until one is not
HOME/servers/NAME/      evidence of a server that somebody else started
"""

from upright.base.home import home as home
from upright.facts.store.checking import StoreFinding as StoreFinding
from upright.facts.store.checking import check as check
from upright.facts.store.directories import DeploymentDir as DeploymentDir
from upright.facts.store.directories import ListedDeployment as ListedDeployment
from upright.facts.store.directories import create as create
from upright.facts.store.directories import deployments as deployments
from upright.facts.store.directories import find as find
from upright.facts.store.directories import find_broken as find_broken
from upright.facts.store.directories import list_deployments as list_deployments
from upright.facts.store.directories import measured_residuals as measured_residuals
from upright.facts.store.directories import running_or_last as running_or_last
from upright.facts.store.directories import server_directory as server_directory
from upright.facts.store.files import resolve_inside as resolve_inside
from upright.facts.store.files import write_atomically as write_atomically
from upright.facts.store.files import write_inside as write_inside
from upright.facts.store.journal import Journal as Journal
from upright.facts.store.refusals import RefusedStart as RefusedStart
from upright.facts.store.refusals import forget_refusal as forget_refusal
from upright.facts.store.refusals import last_refusal as last_refusal
from upright.facts.store.refusals import note_refusal as note_refusal
from upright.facts.store.repairing import repair as repair
