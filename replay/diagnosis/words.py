"""Words of many languages by which guesses tell what a text says.

A list cannot be complete. Those that accuse are short, so that they seldom hit by chance; those that excuse
are long: a guess that is wrong costs more than one that is missing.
"""

import re
from typing import Final

NUMBER: Final = r"\d+(?:[.,'\u00a0\u202f ]\d{3})*"
PAGE: Final = (
    r"(?:pages?|seiten?|p[aá]ginas?|pagin[ae]|sid[ae]|side|stron[ay]|страниц[аы]|стр\.?"
    r"|sivu|sayfa|blad|blatt)"
)
_OF: Final = r"(?:of|out of|von|de|sur|di|van|av|af|z|ze|из|från|fra|til|/)(?:\s*(?:총|共|全))?"
_TO: Final = r"(?:[-–—…]+|\.\.|to|bis|à|al?|до|tot|till|til|～|~)"
_FIRST: Final = (
    r"(?:first|top|showing|shown|ersten?|premiers|primeros|primeiros|primi|eerste|första|første"
    r"|pierwsze|первые)"
)
_ROWS: Final = (
    r"(?:rows|results|entries|records|items|matches|hits|rijen|zeilen|treffer|einträgen?|résultats|lignes"
    r"|resultados|filas|risultati|righe|resultaten|rader|träffar|записей|строк)"
)
THERE_IS_MORE: Final = re.compile(
    rf"(?i)\b{PAGE}[:.\s]*(?P<page>\d+)\s*{_OF}\s*(?P<pages>{NUMBER})"
    r"|第?\s*(?P<page_c>\d+)\s*[页頁ページ]+\D{0,6}(?P<pages_c>\d+)\s*[页頁ページ]"
    r"|(?P<page_j>\d+)\s*/\s*(?P<pages_j>\d+)\s*(?:ページ|页|頁|페이지)"
    rf"|(?<![\d.,-])(?P<low>[01])\s*{_TO}\s*(?P<high>{NUMBER})\s+{_OF}\s+(?P<total>{NUMBER})"
    rf"|\b{_FIRST}\s+(?P<shown>{NUMBER})\s+{_OF}\s+(?P<total_s>{NUMBER})"
    rf"|(?<![\d.,-])(?P<shown_r>{NUMBER})\s+{_OF}\s+(?P<total_r>{NUMBER})\s+{_ROWS}\b"
    rf"|(?:…|\.\.\.|\band|\+)\s*(?P<more>{NUMBER})\s+(?:more|weitere|autres|más|altri|mais|fler|еще|ещё)\b"
    rf"|(?P<more_o>{NUMBER})\s+(?:more\s+)?\w+\s+(?:omitted|truncated|left out|not shown|ausgelassen|omis)"
    rf"|\bmore {_ROWS} (?:are )?(?:available|exist|follow|remain)"
)
"""Texts that say that there is more. The names of the groups end at their first underscore."""

ALL: Final = re.compile(
    r"(?i)\b(?:all|every|each|everything|totals?|overall|altogether|complete|entire|whole"
    r"|none|nothing|nowhere|anywhere|no other|only"
    r"|alle[nrs]?|sämtliche\w*|insgesamt|gesamt\w*|jede[rsn]?|keine?[rn]?|nur"
    r"|tous|toutes?|tout|chaque|aucune?|seule?s?|todos|todas|cada|ning[uú]n\w*|solo|sólo"
    r"|tutt[ie]|totale|ogni|nessun\w*|nenhum\w*|apenas|totaal|elke?|geen|samtliga|alla|totalt|varje|inga"
    r"|wszystk\w+|razem|każd\w+|tylko|tüm|bütün|toplam|hepsi|her|все[гх]?о?|итого|кажд\w+|только)\b"
    r"|すべて|全て|全部|合計|全員|所有|总共|總共|一共|共有|모든|모두|전체|총"
)
"""Words of an answer about all of something."""

A_PART: Final = re.compile(
    r"(?i)\b(?:pages?|first \d+|partial\w*|part of|at least|so far|more exist|not all|truncated|sample"
    r"|seiten?|ersten|mindestens|teilweise|nicht alle|au moins|premi[eè]re|al menos|primera|almeno"
    r"|prima pagina|minst|minstens|co najmniej|по крайней мере|как минимум|не все|en az)\b"
    r"|少なくとも|至少|ページ|最初の|页|頁|적어도|페이지"
)
"""Words of an answer that says that it is about a part."""

A_CHOICE: Final = re.compile(
    r"(?i)differ|disagre|conflict|contradict|discrepan|inconsisten|mismatch|unclear|whereas"
    r"|\b(?:than|instead|lowest|highest|cheapest|best|latest|newest|newer|older|largest|smallest)\b"
    r"|\b(?:most|least|average|mean|between)\b"
    r"|widersp|abweich|unterschied|uneinig|günstigst|niedrigst|höchst|neuest|\b(?:statt|als)\b"
    r"|diffèr|différen|contredi|diverg|plutôt|contradic|difier|diferen|discord|contraddi"
    r"|verschil|tegenstrij|skilj|motsäg|forskel|różni|sprzecz|разн|расх|противореч|отлича"
    r"|矛盾|不一致|不同|異なる|食い違|差异|差異|最低|最高|最新|다르|다릅|불일치|모순|çeliş|fark"
)
"""Words of an answer that tells that there was a choice."""

_WORDS: Final = r"\w*\s(?:\S+\s){0,6}?"
_READER: Final = r"(?:ai|llm|ki|ia|language model|model|assistant|agent|chatbot|bot)"
TO_AN_AGENT: Final = re.compile(
    rf"(?i)\b(?:ignor|disregard|forget|overrid|bypass){_WORDS}(?:instruct|prompt|rule|direct|guid|task|polic)"
    r"|\b(?:ignore|disregard|forget) (?:everything|anything|all|what) .{0,20}(?:above|before|earlier)"
    r"|\b(?:previous|prior|earlier) (?:instruct|direct|order|prompt)\w* (?:are|is) "
    r"|\bI (?:order|command) you\b"
    r"|\b(?:ignor|oubli|vergiss)\w* (?:ce qui précède|lo anterior|quanto sopra|das obige|the above)"
    r"|\b(?:stop|drop) what you are doing"
    r"|\byour (?:new|real|actual|updated) (?:task|goal|job|role|instruction)"
    rf"|\b(?:ignorier|vergiss|vergessen|missachte){_WORDS}\w*(?:anweis|vorgab|regel|auftr|befehl)"
    rf"|\b(?:ignor|oubli){_WORDS}(?:instruct|consign|règle|ordre|tâche)"
    rf"|\b(?:ignor|olvid|omit|esque[cç]|desconsider){_WORDS}(?:instruc|instruç|regla|regra|orden|tarea)"
    rf"|\b(?:ignor|dimentic|trascur){_WORDS}(?:istruz|regol|ordin|compit)"
    rf"|\b(?:negeer|vergeet){_WORDS}(?:instruct|opdracht|regel)"
    rf"|\b(?:ignorer|glöm|glem){_WORDS}(?:instru|anvis|regl)"
    rf"|\b(?:z?ignoruj|zapomnij|pomiń){_WORDS}(?:instrukc|polece|zasad|reguł)"
    rf"|(?:игнорир|забудь){_WORDS}(?:инструкц|указан|правил|задан)"
    rf"|(?:talimat|kural|yönerge){_WORDS}(?:yok say|unut|dikkate alma|görmezden)"
    r"|(?:忽略|无视|無視|忽視|忘记|忘記|不要理会)\S{0,14}(?:指令|指示|规则|規則|提示|要求|任务)"
    r"|(?:指示|命令|ルール|プロンプト)\S{0,12}(?:無視|忘れ)|(?:지시|명령|규칙)\S{0,6}\s?(?:모두 )?(?:무시|잊)"
    r"|\b(?:do not|don't|never|without)\s(?:tell|mention|inform|reveal|show|notify|ask)\w*\s(?:\S+\s){0,3}?"
    r"(?:user|human|anyone|owner|operator)"
    r"|(?:nutzer|benutzer|anwender)\w*\s(?:\S+\s){0,3}?(?:nichts|nicht)\b"
    r"|\b(?:note|message|attention|notice|instructions?|dear|hello|hey|for any)[,:]?\s"
    rf"(?:(?:to|for|the|all|any)\s)*{_READER}"
    rf"|\b{_READER}(?:[- ](?:coding\s)?(?:assistant|agent|model|assistent|asistente|assistente)\w*)?s?\s"
    r"(?:must|should|shall|has to|have to|need to|reading this|processing this)"
    r"|<\s*(?:system|important|admin|instructions?)\b[^>]*>|\[\s*(?:system|admin|inst)\b[^\]]*\]"
    r"|\b(?:new|updated|system|admin|developer)\s(?:instructions?|prompt|message|override|notice)\s*:"
    r"|\byou (?:are now|now work|must (?:now|immediately|first|also|not tell))\b"
)
"""Texts that are directed at an agent. Data is about things, and not about who reads it."""
